"""The interface through which a sweep records itself while it plays: MLflow, or nothing.

A tracker never slows or stops a sweep, and no result comes from it: the run folder is the only source.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from envs.errors import RunFolderError
from orchestrator.storage.progress_log import Point
from orchestrator.tracking.mlflow.tracker import MlflowTracker
from orchestrator.tracking.tracked_run import UNTRACKED, TrackedRun

OTLP = ("otlp", "otlps")
"""Schemes of OpenTelemetry, which version 0.2.0 had last."""


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
        """Record the progress of the sweep at one moment."""

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


TRACKERS: dict[str, Callable[[TrackedRun], Tracker]] = {UNTRACKED: lambda run: NullTracker()}
"""Scheme of ``[tracking] uri`` -> its tracker. Every other address is MLflow's, which has many schemes."""


def open_tracker(run: TrackedRun) -> Tracker:
    """Return the tracker of the run's address, not yet started. Raises RunFolderError for an address of OpenTelemetry."""
    if _scheme(run.uri) in OTLP:
        raise RunFolderError(
            f"tracking.uri {run.uri}: OpenTelemetry left after 0.2.0; type an MLflow address, or `none`"
        )
    return TRACKERS.get(_scheme(run.uri), MlflowTracker)(run)


def is_mlflow(uri: str) -> bool:
    """Return True if an address is MLflow's."""
    return _scheme(uri) not in (*TRACKERS, *OTLP)


def _scheme(uri: str) -> str:
    return uri.partition("://")[0]
