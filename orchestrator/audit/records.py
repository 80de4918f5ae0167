"""A stored episode as the audit replays it, and the differences between two replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.types import Sample
from sweeps.spec import Cell


@dataclass(frozen=True)
class Difference:
    """One thing that is told differently."""

    key: str
    what: str
    stored: Any
    ours: Any
    package: Any

    def __str__(self) -> str:
        return f"{self.key}: {self.what}: stored {self.stored!r}, ours {self.ours!r}, package {self.package!r}"


@dataclass(frozen=True)
class Recording:
    """A stored episode with the sample as its condition showed it."""

    row: Mapping[str, Any]
    """Its columns, those of its turns as lists; the episode's own counts are called ``n_turns`` and so on."""
    cell: Cell
    sample: Sample
    verdicts: Sequence[Mapping[str, Any]] = ()
    """What judges said of an open-ended answer."""
