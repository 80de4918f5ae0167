"""The settings for running and following a sweep: workers, GPUs, money, MLflow, the cache of data. Never part of a key."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sweeps.sampling import Whole
from sweeps.values import Frozen


class Tracking(Frozen):
    """Where MLflow is."""

    uri: str = "sqlite"
    """``sqlite`` (a file under the output folder), a server's address, or ``none``."""
    experiment: str = ""
    """Defaults to the sweep's name."""


class Cluster(Frozen):
    """The share of the machine that a sweep may use; never part of a key."""

    workers: Annotated[Whole, Field(ge=1)] | None = None
    """Replicas a model without GPU may have; default: one per CPU."""
    gpus: Annotated[Whole, Field(ge=1)] | None = None
    """GPUs that the models may take at once; default: all."""
    silence: Annotated[float, Field(gt=0)] = 900.0
    """Seconds a worker with work may say nothing before it counts as hung; long reasoning may need more."""
    judge_gpus: Annotated[Whole, Field(ge=1)] | None = None
    """GPUs that the judges may take at once; default: all."""

    max_cost: Annotated[float, Field(gt=0)] | None = None
    """The budget of all workers and attempts for services, in the currency of their prices; then what is left of
    their episodes stays pending."""

    @property
    def shares(self) -> dict[str, int]:
        """Pool -> GPUs it may take at once, where the sweep says so."""
        asked = {"models": self.gpus, "judges": self.judge_gpus}
        return {pool: gpus for pool, gpus in asked.items() if gpus is not None}


class Staging(Frozen):
    """The transfer of remote data to each node; never part of a key."""

    cache: str = ""
    """Folder on each node; default: ``PROACTIVE_SWEEP_CACHE`` there, or the user's cache folder."""
