"""Starts and ends the process that records a sweep in MLflow while it plays.

The process reads the run folder, so the sweep never waits for MLflow and no result comes from it. It dies with its driver, so
nothing of one attempt at the sweep is written during the next.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread, Timer
from typing import Any, Self

from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from orchestrator.tracking.client import NAME, checkpoint, resolve_uri
from orchestrator.tracking.tracked_run import OTLP, TrackedRun, is_mlflow

CLOSE_SERVER_S, CLOSE_LOCAL_S, CLOSE_KILLED_S, SILENT_S = 60.0, 300.0, 2.0, 5.0
"""Seconds that ``close`` waits for a server, for a file in the run folder, which even a busy machine writes, for the end of an
interrupted run, and in silence."""


class Tracker:
    """The record of one attempt at a sweep in MLflow; nothing if the sweep is not tracked.

    As a block, it ends its process; if the block raises (as Ctrl-C does), a started record ends as KILLED.
    """

    def __init__(self, run: TrackedRun) -> None:
        """Start the process, which imports MLflow until ``start``. Raises RunFolderError for an address of OpenTelemetry."""
        if run.uri.startswith(OTLP):
            sentence = f"tracking.uri {run.uri}: OpenTelemetry left after 0.2.0; type an MLflow address, or `none`"
            raise RunFolderError(sentence)
        self.run, self.is_tracked = run, is_mlflow(run.uri)
        self._started, self._closing, self._uri = False, not self.is_tracked, resolve_uri(run.uri, run.folder)
        if not self.is_tracked:
            return
        self._process = _start_process()
        assert self._process.stdin is not None
        self._pipe = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._process.stdin.close()
        self._relay = Thread(target=self._print_sentences, daemon=True)
        self._relay.start()
        self._send((os.getpid(), self._uri))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._started:
            self.close("KILLED")
        elif not self._closing:
            self._kill()  # nothing was played, so there is nothing to record

    def start(self, dataset: Mapping[str, Any]) -> None:
        """Record from now on; ``dataset`` is from ``describe_dataset``. The caller holds the folder's lock until ``close``."""
        self._started = True
        self._send((self.run, dict(dataset)))

    def close(self, status: str, timeout: float | None = None) -> None:
        """Record the end (FINISHED, FAILED or KILLED); print one sentence if not everything is recorded in time."""
        if self._closing:
            return
        self._closing = True
        usual = CLOSE_LOCAL_S if self._uri.startswith("sqlite") else CLOSE_SERVER_S
        patience = timeout or (CLOSE_KILLED_S if status == "KILLED" else usual)
        notice = Timer(min(SILENT_S, patience / 2), _say, ["all episodes are stored; waiting for MLflow ..."])
        notice.start()
        self._send(status)
        try:
            self._process.wait(patience)
            self._relay.join()
        except subprocess.TimeoutExpired:
            self._kill()
        finally:
            notice.cancel()
        self._pipe.close()
        checkpoint(self.run.folder / NAME)
        if self._process.returncode:
            has_results = (self.run.folder / "results.parquet").exists()
            command = f"send it with: proactive-sweep track {shlex.quote(str(self.run.folder))}"
            remedy = command if has_results else "the next `run` sends it"
            _say(f"MLflow at {redact_address(self._uri)} did not receive everything; {remedy}")

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self, message: object) -> None:
        with suppress(OSError):  # the process was killed, which ``close`` reports
            self._pipe.send(message)

    def _print_sentences(self) -> None:
        """Print the sentences of the process, above a live table."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            _say(line.decode().rstrip("\n"))


def _start_process() -> subprocess.Popen[bytes]:
    """Start the recording process in its own session, so that Ctrl-C reaches only the driver."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator.tracking.process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
    )  # fmt: skip


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
