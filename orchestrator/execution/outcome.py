"""What an attempt at a run folder came to, and the process's exit code that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

INTERRUPTED = 130
INCOMPLETE = 1


@dataclass(frozen=True)
class Outcome:
    """What an attempt came to."""

    rows: pl.DataFrame
    """One row a cell (``score``)."""
    complete: bool
    interrupted: bool
    reasons: Mapping[str, str]
    """Group of models -> why it could not go on."""
    seconds: float = 0.0
    """From the first start of a worker to the last durable episode."""
    cluster_lost: bool = False
    """Whether it was Ray that interrupted it."""

    @property
    def code(self) -> int:
        """The process's exit code: 0 only when every cell is complete."""
        if self.interrupted and not self.cluster_lost:
            return INTERRUPTED
        return 0 if self.complete else INCOMPLETE
