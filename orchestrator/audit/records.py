"""A stored episode as the audit replays it, and the differences between two replays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.types import Sample
from sweeps.spec import Cell


@dataclass(frozen=True)
class EpisodeDifference:
    """A difference between store, our code and the package."""

    key: str
    what: str
    stored: Any
    ours: Any
    package: Any

    def __str__(self) -> str:
        return f"{self.key}: {self.what}: stored {self.stored!r}, ours {self.ours!r}, package {self.package!r}"


@dataclass(frozen=True)
class Recording:
    """A stored episode with the sample under its condition."""

    row: Mapping[str, Any]
    """Columns of the episode, and of its turns as lists; counts of the episode are ``n_turns`` and so on."""
    cell: Cell
    sample: Sample
    verdicts: Sequence[Mapping[str, Any]] = ()
    """Verdicts on an open-ended answer."""
