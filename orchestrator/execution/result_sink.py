"""The result sink stores what workers deliver, less what the circuit breaker holds back, and counts it.

Every planned episode passes once, however often a presumed-dead worker delivers it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from actors.records import EpisodeBatch
from envs.types import ERRORS
from orchestrator.execution.circuit_breaker import CircuitBreaker, only
from orchestrator.planning.plan import Plan
from orchestrator.storage.episode_store import EpisodeStore


class ResultSink:
    """Lets every planned episode through once: late duplicates of a presumed-dead worker are dropped by ordinal."""

    def __init__(
        self,
        store: EpisodeStore,
        plan: Plan,
        breaker: CircuitBreaker | None = None,
        stored: Callable[[EpisodeBatch], None] = lambda batch: None,
    ) -> None:
        """``stored`` hears of every batch that is kept."""
        self.store, self.plan, self.breaker = store, plan, breaker or CircuitBreaker()
        self._stored = stored
        self.seen = bytearray(plan.total)
        self.per_cell: Counter[str] = Counter()
        """Cell -> episodes stored by this run."""
        self.errors: Counter[str] = Counter()
        """Cell -> those of them that ended as an error."""

    @property
    def done(self) -> int:
        """Episodes stored by this run."""
        return self.per_cell.total()

    def add(self, batch: EpisodeBatch) -> EpisodeBatch:
        """Store the batch's episodes that are new and not held back; returns the batch of these."""
        new = [not self.seen[ordinal] for ordinal in batch.ordinals]
        if not all(new):
            batch = only(batch, new)
        for ordinal in batch.ordinals:
            self.seen[ordinal] = 1
        passed, *released = self.breaker.let_through(batch)
        for part in (passed, *released):
            self._keep(part)
        return passed

    def forget(self, ordinals: Sequence[int]) -> None:
        """These failed episodes were taken out of the store, and may be stored again."""
        for ordinal in ordinals:
            self.seen[ordinal] = 0
            cell = self.plan.cells[self.plan.task(ordinal)[0]].key
            self.per_cell[cell] -= 1
            self.errors[cell] -= 1

    def release(self) -> None:
        """At the end: store what was held back of models that were not stopped."""
        for batch in self.breaker.leftovers():
            self._keep(batch)

    def _keep(self, batch: EpisodeBatch) -> None:
        cells, endings = batch.episodes["cell"], batch.episodes["ending"]
        self.per_cell.update(cells)
        self.errors.update(cell for cell, ending in zip(cells, endings, strict=True) if ending in ERRORS)
        self.store.append(batch)
        self._stored(batch)
