"""The result sink stores and counts the episodes that workers deliver, except those that the circuit breaker holds back."""

from collections import Counter
from collections.abc import Callable, Sequence

from actors.playing.play import Episode
from actors.playing.records import EpisodeBatch, PlayedEpisode, episode_batch
from envs.types import ERRORS, Ending
from orchestrator.execution.circuit_breaker import CircuitBreaker, select_episodes
from orchestrator.planning.plan import Plan
from orchestrator.storage.episode_store import EpisodeStore


class ResultSink:
    """Stores every planned episode once; an ordinal that was delivered before, by a worker presumed dead, is dropped."""

    def __init__(
        self,
        store: EpisodeStore,
        plan: Plan,
        breaker: CircuitBreaker | None = None,
        on_stored: Callable[[EpisodeBatch], None] = lambda batch: None,
    ) -> None:
        """Start an empty sink; ``on_stored`` is called with every stored batch."""
        self.store, self.plan, self.breaker = store, plan, breaker or CircuitBreaker()
        self._on_stored = on_stored
        self.delivered = bytearray(plan.total)
        self.per_cell: Counter[str] = Counter()
        """Cell -> episodes stored by this run."""
        self.errors: Counter[str] = Counter()
        """Cell -> how many of these episodes ended as an error."""

    @property
    def stored_count(self) -> int:
        return self.per_cell.total()

    def add(self, batch: EpisodeBatch) -> EpisodeBatch:
        """Store the batch without duplicates and held-back episodes, and what it releases; return its stored part."""
        if any(self.delivered[ordinal] for ordinal in batch.ordinals):
            batch = select_episodes(batch, [not self.delivered[ordinal] for ordinal in batch.ordinals])
        for ordinal in batch.ordinals:
            self.delivered[ordinal] = 1
        passed, *released = self.breaker.pass_through(batch)
        for storable in (passed, *released):
            self._store(storable)
        return passed

    def give_up(self, ordinals: Sequence[int], reason: str) -> None:
        """Store these episodes as FAILED with this reason."""
        self.add(build_failed_batch(self.plan, ordinals, reason))

    def store_held_back(self) -> None:
        """Store the episodes held back for models that were not stopped; call this at the end."""
        for batch in self.breaker.release_rest():
            self._store(batch)

    def _store(self, batch: EpisodeBatch) -> None:
        cells, endings = batch.episodes["cell"], batch.episodes["ending"]
        self.per_cell.update(cells)
        self.errors.update(cell for cell, ending in zip(cells, endings, strict=True) if ending in ERRORS)
        self.store.append(batch)
        self._on_stored(batch)


def build_failed_batch(plan: Plan, ordinals: Sequence[int], reason: str) -> EpisodeBatch:
    """Return an episode without turns for each ordinal, with ``reason`` as its error; no table counts FAILED as an answer."""
    episodes = []
    for ordinal in ordinals:
        index, sample = plan.task(ordinal)
        key, seed = plan.key(index, sample), plan.episode_seed(sample, plan.cells[index].condition)
        failed = Episode(key, sample, seed, (), Ending.FAILED, reason, 0.0)
        episodes.append(PlayedEpisode(ordinal, plan.cells[index], failed))
    return episode_batch(episodes)
