"""Leaves a command for a running sweep (``proactive-sweep ctl``) where its run folder is, and hears what came of it.

The run folder is a local one or a bucket's; whoever may write there may ask, and nothing listens on any port.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.object_store.bucket import Bucket, is_address
from orchestrator.object_store.writer_lock import holder
from orchestrator.storage import control_log, lock, run_folder
from orchestrator.storage.control_log import Command, Entry
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import PlannedCell
from sweeps.spec import Sweep

LOOK_INTERVAL_S = 0.5
"""Seconds between two looks for an answer; four times as long in a bucket."""


class Asking:
    """A run folder, or a bucket's, that commands are left in."""

    def __init__(self, output: str) -> None:
        """Raises RunFolderError where there is no run."""
        self.output = output
        self.bucket = Bucket(output) if is_address(output) else None
        there = self.bucket.stat(run_folder.RESOLVED) if self.bucket else (self.folder / run_folder.RESOLVED).exists()
        if not there:
            raise RunFolderError(f"{output} holds no run; `proactive-sweep run SWEEP --output {output}` starts one")

    @property
    def folder(self) -> Path:
        """The local folder; of no use for a bucket."""
        return Path(self.output)

    @property
    def running(self) -> bool:
        """Whether a driver is at work there."""
        return (holder(self.bucket) if self.bucket else lock.holder(self.folder)) is not None

    def ask(self, command: Command) -> str:
        """Leave a command; its name. Raises OSError, or BucketError where the bucket takes nothing."""
        if self.bucket is None:
            return control_log.ask(self.folder, command)
        name, content = control_log.file_of(command)
        self.bucket.write(f"{control_log.INBOX}/{name}", content)
        return name

    def answer(self, name: str, seconds: float) -> Entry | None:
        """What came of a command, waited for at most so long; None where nobody has taken it by then."""
        deadline = time.monotonic() + seconds
        while (found := self._entry(name)) is None and time.monotonic() < deadline:
            time.sleep(LOOK_INTERVAL_S * (4 if self.bucket else 1))
        return found

    def history(self) -> list[Entry]:
        """Every command that was taken; raises RunFolderError where the log is damaged."""
        if self.bucket is None:
            return control_log.history(self.folder)
        return control_log.parsed(self.bucket.read(control_log.LOG) or b"", self.output)

    def played(self) -> tuple[Sweep, list[PlannedCell]]:
        """The sweep that is played there, and the cells of its plan; raises RunFolderError."""
        if self.bucket is None:
            return run_folder.stored_sweep(self.folder), run_folder.planned_cells(self.folder)
        with TemporaryDirectory() as copy:
            for name in (run_folder.RESOLVED, run_folder.PLAN):
                if (content := self.bucket.read(name)) is not None:
                    Path(copy, name).write_bytes(content)
            return run_folder.stored_sweep(Path(copy)), run_folder.planned_cells(Path(copy))

    def _entry(self, name: str) -> Entry | None:
        return next((entry for entry in self.history() if entry.name == name), None)
