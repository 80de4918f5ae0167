"""The one gate to the store: every planned episode passes once, however often a presumed-dead worker delivers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from envs.types import ERRORS, UNSCORED
from orchestrator.planning.plan import Plan
from orchestrator.storage.episode_store import EpisodeStore


class ResultSink:
    """Lets every planned episode through once: late duplicates of a presumed-dead worker are dropped by ordinal."""

    def __init__(self, store: EpisodeStore, plan: Plan) -> None:
        self.store = store
        self.seen = bytearray(plan.total)
        self.per_cell: Counter[str] = Counter()
        """Cell -> episodes stored by this run."""
        self.scored: Counter[bool] = Counter()
        """Right or wrong -> episodes of multiple choice that this run stored; errors are neither."""
        self.errors: Counter[str] = Counter()
        """Cell -> those of them that ended as an error."""

    @property
    def done(self) -> int:
        """Episodes stored by this run."""
        return self.per_cell.total()

    def add(self, content: dict[str, Any]) -> dict[str, Any]:
        """Store the block's episodes that are new; returns the block of these."""
        ordinals = content["ordinals"]
        fresh = [not self.seen[ordinal] for ordinal in ordinals]
        if not all(fresh):
            content = _only(content, fresh)
            ordinals = content["ordinals"]
        for ordinal in ordinals:
            self.seen[ordinal] = 1
        cells, endings = content["episodes"]["cell"], content["episodes"]["ending"]
        self.per_cell.update(cells)
        self.errors.update(cell for cell, ending in zip(cells, endings, strict=True) if ending in ERRORS)
        told = zip(endings, content["episodes"]["correct"], strict=True)
        self.scored.update(bool(correct) for ending, correct in told if ending not in UNSCORED)
        self.store.append({"episodes": content["episodes"], "turns": content["turns"]})
        return content


def _only(content: dict[str, Any], keep: Sequence[bool]) -> dict[str, Any]:
    """The block without the episodes that are not to keep, their turns included."""
    kept = {key for key, wanted in zip(content["episodes"]["key"], keep, strict=True) if wanted}

    def filtered(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        rows = [key in kept for key in columns["key"]]
        return {name: [v for v, row in zip(values, rows, strict=True) if row] for name, values in columns.items()}

    return {
        "ordinals": [o for o, wanted in zip(content["ordinals"], keep, strict=True) if wanted],
        "episodes": filtered(content["episodes"]),
        "turns": filtered(content["turns"]),
    }
