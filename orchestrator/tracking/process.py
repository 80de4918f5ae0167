"""The process that records a run folder in MLflow while the sweep plays: about once a second it sends what is new.

It imports MLflow while the sweep is planned, and opens nothing before it is told which run to record. It prints sentences for
the user. It ends once it has sent the end of the run, or has failed twice to send it.
"""

import ctypes
import gc
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl

from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.report.scores.metrics import score
from orchestrator.storage.run_folder import planned_cells, planned_episodes, stored_sweep
from orchestrator.storage.verdict_store import verdicts
from orchestrator.tracking.client import first_line, import_client, resolve_uri
from orchestrator.tracking.mlflow_run import MlflowRun
from orchestrator.tracking.rebuild import read_results
from orchestrator.tracking.tracker import TrackedRun

SEND_INTERVAL_S = 1.0
FIRST_SCORE_S, SCORE_INTERVAL_S = 10.0, 30.0
"""Seconds until the first scoring, and fewest seconds between two."""
POINTS, REST_FACTOR = 20, 100
"""A scoring waits at least the run's age / POINTS, and REST_FACTOR times as long as the last one took."""
MEASURE_INTERVAL_S = 30
SYSTEM_METRICS = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
"""MLflow's own variable; "false" turns the measurements of the driver's machine off."""
PR_SET_PDEATHSIG, SIGKILL = 1, 9
"""Linux: ``prctl(PR_SET_PDEATHSIG, SIGKILL)`` ends this process with its parent."""
MAX_CLOSING_FAILURES = 2
"""Failures after the end of the sweep before the rest is left to ``track``: nobody waits for a server that is gone."""


@dataclass
class Mirror:
    """Sends what is new in a run folder, and reports when the server goes and comes back."""

    run: TrackedRun
    dataset: Mapping[str, Any]
    began: float = field(default_factory=time.monotonic)
    due: float = 0.0
    """When the cells are scored next."""
    mlflow_run: MlflowRun | None = None
    is_reachable: bool = True
    monitor: Thread | None = None

    def send(self, status: str) -> bool:
        """Send what is new, with the run's final ``status`` if it has one; return True if MLflow accepted it."""
        was_reachable, sentence = self.is_reachable, "can be reached again"
        try:
            self._send(status)
            self.is_reachable = True
        except Exception as error:  # MLflow's stores raise any error; the sweep goes on without it
            self.mlflow_run = None  # runs may have been deleted, or the server emptied: look for them again
            self.is_reachable = False
            sentence = f"cannot be reached; the sweep continues without it: {first_line(error)}"
        if self.is_reachable != was_reachable:
            print(f"MLflow at {redact_address(resolve_uri(self.run.uri, self.run.folder))} {sentence}", flush=True)
        return self.is_reachable

    def _send(self, status: str) -> None:
        if self.mlflow_run is None:
            mlflow_run, self.due = MlflowRun(self.run), self.began + FIRST_SCORE_S
            mlflow_run.send_dataset(self.dataset)
            self.mlflow_run = mlflow_run
            if not status:
                self._measure_machine(mlflow_run)
        began = time.monotonic()
        if status or began >= self.due:
            is_final = bool(status) and status != "KILLED"
            rows = read_results(self.run.folder) if is_final else score_stored(self.run.folder)
            self.mlflow_run.send(rows.iter_rows(named=True), status)
            after = time.monotonic()
            self.due = after + max(SCORE_INTERVAL_S, (after - self.began) / POINTS, REST_FACTOR * (after - began))
        else:
            self.mlflow_run.send_points()

    def _measure_machine(self, mlflow_run: MlflowRun) -> None:
        """Let MLflow measure this machine until the sweep's run ends."""
        if os.environ.get(SYSTEM_METRICS, "").lower() == "false" or (self.monitor and self.monitor.is_alive()):
            return
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        with suppress(Exception):  # without psutil, or a server that is gone again
            options = {"resume_logging": True, "tracking_uri": mlflow_run.uri}
            monitor = SystemMetricsMonitor(mlflow_run.parent, MEASURE_INTERVAL_S, **options)
            monitor.start()
            self.monitor = monitor._process  # nothing public says whether it still measures


def score_stored(folder: Path) -> pl.DataFrame:
    """Return a row per planned cell from the episodes stored so far; none if a part cannot be read, which the driver reports."""
    with suppress(OSError, pl.exceptions.PolarsError, RunFolderError):
        sweep, planned = stored_sweep(folder), pl.DataFrame(planned_cells(folder))
        judged = verdicts(folder).filter(pl.col("judge") == own_judge_key(sweep))
        return score(planned_episodes(folder), planned, judged, reference=sweep.reference_conditions)
    return pl.DataFrame()


def end_with_parent(parent: int) -> None:
    """End this process when its ``parent`` ends; on other systems than Linux, only its pipes break then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        raise SystemExit(1)


def main() -> int:
    """Send until the driver says how the sweep ended; return 1 if that could not be sent."""
    driver = Connection(os.dup(0), writable=False)
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)  # MLflow's own prints go to standard error
    parent, uri = driver.recv()
    end_with_parent(parent)
    gc.disable()  # takes a quarter of the import's time
    with suppress(Exception):  # ``send`` reports it
        import_client(uri)
    gc.freeze()
    gc.enable()
    run, dataset = driver.recv()
    mirror, status, failures = Mirror(run, dataset), "", 0
    while failures < MAX_CLOSING_FAILURES:
        if not status and driver.poll(SEND_INTERVAL_S):
            status = driver.recv()
        if mirror.send(status) and status:
            return 0
        failures += bool(status)
    return 1


if __name__ == "__main__":
    sys.exit(main())
