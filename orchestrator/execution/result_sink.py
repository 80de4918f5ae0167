"""The result sink stores what workers deliver, and counts it.

Every planned episode passes once, however often a presumed-dead worker delivers it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from actors.records import Columns, EpisodeBatch
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

    def add(self, batch: EpisodeBatch) -> EpisodeBatch:
        """Store the batch's episodes that are new; returns the batch of these."""
        new = [not self.seen[ordinal] for ordinal in batch.ordinals]
        if not all(new):
            batch = _only(batch, new)
        for ordinal in batch.ordinals:
            self.seen[ordinal] = 1
        cells, endings = batch.episodes["cell"], batch.episodes["ending"]
        self.per_cell.update(cells)
        self.errors.update(cell for cell, ending in zip(cells, endings, strict=True) if ending in ERRORS)
        results = zip(endings, batch.episodes["correct"], strict=True)
        self.scored.update(bool(correct) for ending, correct in results if ending not in UNSCORED)
        self.store.append(batch)
        return batch


def _only(batch: EpisodeBatch, keep: Sequence[bool]) -> EpisodeBatch:
    """The batch without the episodes that are not to keep, their turns included."""
    keys = {key for key, wanted in zip(batch.episodes["key"], keep, strict=True) if wanted}

    def filtered(columns: Columns) -> Columns:
        rows = [key in keys for key in columns["key"]]
        return {name: [v for v, row in zip(values, rows, strict=True) if row] for name, values in columns.items()}

    ordinals = [ordinal for ordinal, wanted in zip(batch.ordinals, keep, strict=True) if wanted]
    return EpisodeBatch(ordinals, filtered(batch.episodes), filtered(batch.turns))
