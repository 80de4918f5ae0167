"""The interface through which a sweep records itself while it plays, and the table of its implementations.

A tracker never slows or stops a sweep, and no result comes from it: the run folder is the only source.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from orchestrator.storage.progress_log import Point
from orchestrator.tracking.mlflow.tracker import MlflowTracker
from orchestrator.tracking.otlp import SCHEMES, OtlpTracker
from orchestrator.tracking.tracked_run import UNTRACKED, TrackedRun


class Tracker(Protocol):
    """Records one attempt at a sweep. Methods return at once, except ``close``; none raises because of its server."""

    enabled: bool
    """False if nothing is recorded: the driver then skips measurements that only a tracker needs."""

    def start(self) -> None:
        """Begin to record."""

    def dataset(self, description: Mapping[str, Any]) -> None:
        """Record the data set (``describe_dataset``); called before ``start``."""

    def cell(self, row: Mapping[str, Any]) -> None:
        """Record the newest row of a cell, in place of older rows of that cell."""

    def progress(self, point: Point) -> None:
        """Record the progress of the sweep, or the load of its nodes, at one moment."""

    def artifacts(self, paths: Sequence[Path]) -> None:
        """Record files; those that do not exist are skipped."""

    def close(self, status: str, timeout: float | None = None) -> None:
        """Record the end (FINISHED, FAILED or KILLED) and wait until everything is recorded, or print what to do instead.

        ``timeout``: seconds to wait at most; by default the tracker decides.
        """


class NullTracker:
    """Records nothing."""

    enabled = False

    def start(self) -> None: ...

    def dataset(self, description: Mapping[str, Any]) -> None: ...

    def cell(self, row: Mapping[str, Any]) -> None: ...

    def progress(self, point: Point) -> None: ...

    def artifacts(self, paths: Sequence[Path]) -> None: ...

    def close(self, status: str, timeout: float | None = None) -> None: ...


TRACKERS: Mapping[str, Callable[[TrackedRun], Tracker]] = {
    UNTRACKED: lambda run: NullTracker(),
    **dict.fromkeys(SCHEMES, OtlpTracker),
}
"""Scheme of ``[tracking] uri`` -> its tracker. Every other address is MLflow's, which has many schemes."""


def open_tracker(run: TrackedRun) -> Tracker:
    """Return the tracker of the run's address, not yet started."""
    return TRACKERS.get(_scheme(run.uri), MlflowTracker)(run)


def is_mlflow(uri: str) -> bool:
    """Return True if an address is MLflow's."""
    return _scheme(uri) not in TRACKERS


def _scheme(uri: str) -> str:
    return uri.partition("://")[0]
