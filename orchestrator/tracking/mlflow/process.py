"""The process that talks to MLflow: receives updates on standard input and sends what is new about once a second.

It prints sentences for the user on standard output, and ends once it has sent the end of the run or the server is gone.
"""

import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Thread
from time import monotonic

from actors.node.child_process import end_with_parent
from actors.text.redaction import redact_address
from orchestrator.tracking.mlflow.client import first_line
from orchestrator.tracking.mlflow.local_store import resolve_uri
from orchestrator.tracking.mlflow.run import MlflowRun, Update
from orchestrator.tracking.mlflow.tracker import COMPLETE, INCOMPLETE
from orchestrator.tracking.tracked_run import TrackedRun

SEND_INTERVAL_S, RETRY_INTERVAL_S = 1.0, 2.0
"""Seconds until the next update is sent, after a success and after a failure."""
MEASURE_INTERVAL_S = 30
"""Seconds between two measurements of the machine, unless MLflow's own variable is set."""
SYSTEM_METRICS = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
NICENESS = 10
MAX_CLOSING_FAILURES = 2
"""Failures after the end of the sweep before the rest is left to ``track``: nobody waits for a server that is gone."""


class Sender:
    """Sends updates, and reports when the server goes and comes back."""

    def __init__(self, run: TrackedRun) -> None:
        self.run = run
        self.address = redact_address(resolve_uri(run.uri, run.folder))
        self.mlflow_run: MlflowRun | None = None
        self.reachable = True
        self.monitor: Thread | None = None

    def send(self, update: Update) -> bool:
        """Send an update and return True if MLflow accepted it."""
        try:
            self._send(update)
        except Exception as error:  # MLflow's stores raise any error; the sweep goes on without it
            if self.reachable:
                self._print(f"cannot be reached; the sweep continues without it: {first_line(error)}")
            self.reachable = False
            return False
        if not self.reachable:
            self._print("can be reached again")
        self.reachable = True
        return True

    def _send(self, update: Update) -> None:
        if self.mlflow_run is not None:
            with suppress(Exception):
                self.mlflow_run.send(update)
                return
            self.mlflow_run = None  # runs may have been deleted, or the server emptied: look for them again
        mlflow_run = MlflowRun(self.run)
        mlflow_run.send(update)
        self.mlflow_run = mlflow_run
        if not update.status:
            self._measure_machine(mlflow_run)

    def _measure_machine(self, run: MlflowRun) -> None:
        """Let MLflow measure this machine until the sweep's run ends; its variable turns that off."""
        if os.environ.get(SYSTEM_METRICS, "").lower() == "false" or (self.monitor and self.monitor.is_alive()):
            return
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        with suppress(Exception):  # without psutil, or a server that is gone again
            monitor = SystemMetricsMonitor(run.parent, MEASURE_INTERVAL_S, resume_logging=True, tracking_uri=run.uri)
            monitor.start()
            self.monitor = monitor._process

    def _print(self, sentence: str) -> None:
        print(f"MLflow at {self.address} {sentence}", flush=True)


def receive(updates: Connection, pending: Update, seconds: float) -> Update:
    """Return ``pending`` merged with updates that arrive within ``seconds``; stop early at the end of the sweep."""
    deadline = monotonic() + seconds
    while not pending.status and updates.poll(max(0.0, deadline - monotonic())):
        pending = pending.merge(updates.recv())
    return pending


def main() -> int:
    """Send updates until the end of the sweep; return the exit code."""
    updates = Connection(os.dup(0), writable=False)
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # MLflow's own prints go to standard error
    with suppress(OSError):
        os.nice(NICENESS)  # what plays goes first
    run, driver = updates.recv()
    end_with_parent(driver)
    sender, pending, failures, interval = Sender(run), updates.recv(), 0, 0.0
    while failures < MAX_CLOSING_FAILURES:
        pending = receive(updates, pending, interval)
        if sender.send(pending):
            if pending.status:
                return COMPLETE
            pending, interval = Update(), SEND_INTERVAL_S
        else:
            failures += bool(pending.status)
            interval = RETRY_INTERVAL_S
    return INCOMPLETE


if __name__ == "__main__":
    sys.exit(main())
