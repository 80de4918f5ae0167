"""The MLflow tracker: hands updates to a process of its own and never waits for it before ``close``.

MLflow runs in another process because importing it would block the interpreter that drives the sweep for seconds. That
process dies with its driver, so nothing of one attempt at the sweep is written during the next.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from actors.node.child_process import start_module
from actors.text.redaction import redact_address
from orchestrator.storage.progress_log import Point
from orchestrator.tracking.mlflow import local_store
from orchestrator.tracking.mlflow.client import now_ms
from orchestrator.tracking.mlflow.run import Update
from orchestrator.tracking.tracked_run import TrackedRun

PROCESS = "orchestrator.tracking.mlflow.process"
COMPLETE, INCOMPLETE = 0, 3
"""Exit codes of the process: everything was sent, or the server is gone. Any other one means that it was killed."""
MAX_STARTS = 5
"""How often a tracker starts its process at most, if something kills it each time."""
CLOSE_SERVER_S, CLOSE_LOCAL_S = 60.0, 300.0
"""Seconds that ``close`` waits at most; longer for a file in the run folder, which a busy machine still writes in the end."""


class MlflowTracker:
    """Sends one attempt at a sweep to MLflow."""

    enabled = True

    def __init__(self, run: TrackedRun) -> None:
        self.run = run
        self._uri = local_store.resolve_uri(run.uri, run.folder)
        self._updates: SimpleQueue[Update] = SimpleQueue()
        self._thread = Thread(target=self._feed, name="mlflow-feeder", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._complete = self._abandoned = False

    def start(self) -> None:
        """Start MLflow's process; return at once."""
        self._thread.start()

    def dataset(self, description: Mapping[str, Any]) -> None:
        """Send the data set."""
        self._updates.put(Update(dataset=description))

    def cell(self, row: Mapping[str, Any]) -> None:
        """Send the newest row of a cell (a row of ``results.json``)."""
        self._updates.put(Update({row["cell"]: {**row, "at": now_ms()}}))

    def progress(self, point: Point) -> None:
        """Send a point over time; while a server is away, the oldest points are dropped."""
        self._updates.put(Update(points=(point,)))

    def artifacts(self, paths: Sequence[Path]) -> None:
        """Send files."""
        self._updates.put(Update(files=tuple(paths)))

    def close(self, status: str, timeout: float | None = None) -> None:
        """Send what is left and end the sweep's run; print one sentence if not everything was sent in time."""
        if self._thread.ident is None:
            return
        if timeout is None:
            timeout = CLOSE_LOCAL_S if self._uri.startswith("sqlite") else CLOSE_SERVER_S
        self._updates.put(Update(status=status))
        self._thread.join(timeout)
        self._abandoned = True
        complete = self._complete
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        local_store.checkpoint(self.run.folder / local_store.NAME)
        if not complete:
            has_results = (self.run.folder / "results.parquet").exists()
            remedy = (
                f"send it with: proactive-sweep track {self.run.folder}" if has_results else "the next `run` sends it"
            )
            print(
                f"MLflow at {redact_address(self._uri)} did not receive everything; {remedy}",
                file=sys.stderr,
                flush=True,
            )

    def _feed(self) -> None:
        """Pass updates on until the process has sent the end; start it again if something kills it.

        The process dies with the thread that starts it (``PR_SET_PDEATHSIG``), so this thread outlives the process.
        """
        all_updates = Update()
        for _ in range(MAX_STARTS):
            self._process = process = start_module(PROCESS, stderr=subprocess.DEVNULL)
            assert process.stdin is not None
            relay = Thread(target=self._relay, args=(process,), daemon=True)
            relay.start()
            try:
                with process.stdin as pipe, Connection(os.dup(pipe.fileno()), readable=False) as connection:
                    connection.send((self.run, os.getpid()))
                    connection.send(all_updates)
                    while not all_updates.status:
                        update = self._updates.get()
                        all_updates = all_updates.merge(update)
                        connection.send(update)
                    process.wait()
            except OSError:  # the process ended early
                process.wait()
            relay.join()
            if self._abandoned or process.returncode in (COMPLETE, INCOMPLETE):
                self._complete = process.returncode == COMPLETE
                return

    def _relay(self, process: subprocess.Popen[bytes]) -> None:
        """Print the sentences of the process."""
        assert process.stdout is not None
        for line in process.stdout:
            if not self._abandoned:
                print(line.decode().rstrip("\n"), file=sys.stderr, flush=True)
