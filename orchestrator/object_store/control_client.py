"""Sends commands to a running sweep (``proactive-sweep ctl``) through its run folder, local or in a bucket, and reads the log."""

import shlex
import time
from pathlib import Path

from envs.errors import RunFolderError
from orchestrator.object_store.bucket import Bucket, is_address
from orchestrator.object_store.writer_lock import read_holder
from orchestrator.storage import control_log, lock, run_folder, safe_write
from orchestrator.storage.control_log import Command, LogEntry

POLL_INTERVAL_S = 0.5
"""Seconds between two polls for an answer in a local folder; a bucket is polled a quarter as often."""


class ControlClient:
    """A client for the commands of one run folder; ``folder`` is unused for a bucket."""

    def __init__(self, output: str) -> None:
        """Raises RunFolderError if there is no run."""
        self.output, self.folder = output, Path(output)
        self.bucket = Bucket(output) if is_address(output) else None
        if self.bucket is None:
            safe_write.refuse_links(self.folder)
            if not (self.folder / run_folder.RESOLVED).exists():
                raise run_folder.missing_run(self.folder)
        elif not self.bucket.stat(run_folder.RESOLVED):
            raise RunFolderError(
                f"{output} holds no run; `proactive-sweep run SWEEP --output {shlex.quote(output)}` starts one"
            )

    @property
    def running(self) -> bool:
        """True if a driver is running the sweep."""
        return (read_holder(self.bucket) if self.bucket else lock.holder(self.folder)) is not None

    def send(self, command: Command) -> str:
        """Send a command and return its name. Raises OSError, or BucketError for a bucket."""
        if self.bucket is None:
            return control_log.send_command(self.folder, command)
        name, content = control_log.command_file(command)
        self.bucket.write(f"{control_log.INBOX}/{name}", content)
        return name

    def wait_for_answer(self, name: str, seconds: float) -> LogEntry | None:
        """Wait up to ``seconds`` for the log entry of a command; return None if no driver has taken the command."""
        deadline = time.monotonic() + seconds
        while (entry := self._entry(name)) is None and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S * (4 if self.bucket else 1))
        return entry

    def read_history(self) -> list[LogEntry]:
        """Return the log of executed commands. Raises RunFolderError if the log is damaged."""
        if self.bucket is None:
            return control_log.read_history(self.folder)
        return control_log.parse_history(self.bucket.read(control_log.LOG) or b"", self.output)

    def _entry(self, name: str) -> LogEntry | None:
        return next((entry for entry in self.read_history() if entry.name == name), None)
