"""Settings for running and tracking a sweep: workers, GPUs, budget, MLflow, data cache. Never part of a key."""

from typing import Annotated

from pydantic import Field

from sweeps.sampling import Whole
from sweeps.values import Frozen


class Tracking(Frozen):
    """Where a sweep is recorded, by default in MLflow."""

    uri: str = "sqlite"
    """``sqlite`` (a file under the output folder), a server's address, ``otlp://HOST:PORT`` of OpenTelemetry, or ``none``."""
    experiment: str = ""
    """Defaults to the sweep's name."""


class Cluster(Frozen):
    """The share of the cluster that a sweep may use."""

    workers: Annotated[Whole, Field(ge=1)] | None = None
    """Most replicas of a model without GPU; default: one per CPU."""
    gpus: Annotated[Whole, Field(ge=1)] | None = None
    """Most GPUs of the models at once; default: all."""
    silence: Annotated[float, Field(gt=0)] = 900.0
    """Seconds without a message after which a busy worker counts as hung; long reasoning may need more."""
    wait_hours: Annotated[float, Field(ge=0, le=10_000)] = 2.0
    """Hours that a model waits on a joined cluster for a node with enough GPUs, after the last node joined or left; 0: none."""
    judge_gpus: Annotated[Whole, Field(ge=1)] | None = None
    """Most GPUs of the judges at once; default: all."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """Budget of all workers and attempts for services, in the currency of their prices; beyond it, episodes stay pending."""

    @property
    def shares(self) -> dict[str, int]:
        """Return the most GPUs per pool, for pools with a limit."""
        limits = {"models": self.gpus, "judges": self.judge_gpus}
        return {pool: gpus for pool, gpus in limits.items() if gpus is not None}


class Staging(Frozen):
    """The transfer of remote data to each node."""

    cache: str = ""
    """Folder on each node; default: ``PROACTIVE_SWEEP_CACHE`` there, or the user's cache folder."""
