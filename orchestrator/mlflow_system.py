"""The driver's machine as MLflow measures it: processor, memory, disk, network and GPUs, on the parent run while it plays.

Other nodes are not measured here: Ray's dashboard and its Prometheus port have them, and a sampler of ours on every node
would be one more thing that can die during a sweep.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

EVERY = 30.0
"""Seconds between two samples, unless MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL says otherwise."""
SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
"""Turns the samples off when it is ``false``."""


class Machine:
    """The samples of one mirror process."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._monitor: Any = None

    def watch(self, run: str) -> None:
        """Sample for this run, if nobody does yet; a machine that cannot be measured is left alone."""
        thread = self._monitor and self._monitor._process
        if (thread and thread.is_alive()) or os.environ.get(SWITCH, "").lower() == "false":
            return
        with contextlib.suppress(Exception):  # psutil is missing, a driver of a GPU is broken: no reason to stop
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

            self._monitor = SystemMetricsMonitor(
                run, sampling_interval=EVERY, resume_logging=True, tracking_uri=self.uri
            )
            self._monitor.start()

    def rest(self) -> None:
        """Stop sampling: a run that is over gets no more."""
        if self._monitor is not None:
            self._monitor.finish()
            self._monitor = None
