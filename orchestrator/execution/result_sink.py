"""The result sink stores and counts what workers deliver, and stops a model that refuses all requests.

A model stops under a condition if it refuses its first 20 requests there, and no refusal is stored. An episode whose first
request the engine refused is held back until another episode of the same model, condition and protocol is not refused; one
stored by an earlier attempt is enough. Batches of all workers count together, because leases can be small. The model's other
conditions go on: a text-only model refuses pictures, and can still play without them.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

import polars as pl

from actors.playing.play import Episode
from actors.playing.records import Columns, EpisodeBatch, PlayedEpisode, episode_batch
from envs.types import ERRORS, Ending
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.plan import Plan, worker_group
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.spec import Protocol

REFUSALS_TO_STOP = 20
"""A model stops under a condition after so many episodes refused at their first request, if no episode there was answered."""
NO_EVIDENCE = (Ending.UNPROCESSABLE, Ending.FAILED)
"""Endings that, without a played turn, do not prove that the model answers: an unreadable picture, a dead worker."""

log = logging.getLogger(__name__)


class RequestGroup(NamedTuple):
    """The requests that are judged together: those to one model under one condition."""

    model: str
    condition: str
    protocol: str

    def __str__(self) -> str:
        """Return the keys of its cells as a pattern: ``qwen2.5-vl-7b/*/hint``."""
        suffix = "" if self.protocol == Protocol.MCQA else f"-{self.protocol}"
        return f"{self.model}/*/{self.condition}{suffix}"


class ResultSink:
    """Stores every planned episode once; an ordinal that was delivered before, by a worker presumed dead, is dropped."""

    def __init__(
        self, store: EpisodeStore, plan: Plan, on_stored: Callable[[EpisodeBatch], None] = lambda batch: None
    ) -> None:
        """Start an empty sink; ``on_stored`` is called with every stored batch."""
        self.store, self.plan, self._on_stored = store, plan, on_stored
        self.delivered = bytearray(plan.total)
        self.worker_groups = {cell.model.name: worker_group(cell.model) for cell in plan.cells}
        """Model -> its group of workers."""
        self.stored_per_group: Counter[str] = Counter()
        """Group of workers -> episodes stored by this run."""
        self.errors: Counter[str] = Counter()
        """Group of workers -> how many of these episodes ended as an error."""
        evidence = (pl.col("turns") > 0) | ~pl.col("ending").is_in(NO_EVIDENCE)
        counts = evidence.any(), pl.col("ending").is_in(ERRORS).sum().alias("errors")
        stored = stored_episodes(plan, store.folder).group_by(RequestGroup._fields).agg(*counts).collect().rows()
        self.answering_groups = {RequestGroup(*group) for *group, answers, _ in stored if answers}
        """Groups with an episode that the engine did not refuse, of this attempt or an earlier one."""
        self.errors_before = Counter[str]()
        """Group of workers -> how many episodes of earlier attempts ended as an error."""
        for model, *_, errors in stored:
            self.errors_before[self.worker_groups[model]] += errors
        self.stop_reasons: dict[RequestGroup, str] = {}
        """Stopped group -> why; it stays stopped in this attempt, even if an episode in flight is answered later."""
        self._held_back: dict[RequestGroup, list[EpisodeBatch]] = {}
        self._new_stops: list[RequestGroup] = []

    def add(self, batch: EpisodeBatch) -> EpisodeBatch:
        """Store the batch without duplicates and held-back episodes, and what it releases; return its stored part."""
        if any(self.delivered[ordinal] for ordinal in batch.ordinals):
            batch = select_episodes(batch, [not self.delivered[ordinal] for ordinal in batch.ordinals])
        for ordinal in batch.ordinals:
            self.delivered[ordinal] = 1
        names = list(zip(*(batch.episodes[name] for name in RequestGroup._fields), strict=True))
        outcomes = zip(batch.episodes["turns"], batch.episodes["ending"], strict=True)
        answered = [turns or ending not in NO_EVIDENCE for turns, ending in outcomes]
        self.answering_groups.update(map(RequestGroup._make, set(compress(names, answered))))
        passed = self._hold_refused(batch, [RequestGroup(*row) for row in names]) if batch.rejected else batch
        self._store(passed)
        for group in [group for group in self._held_back if self._answers(group)]:
            for earlier in self._held_back.pop(group):
                self._store(earlier)
        return passed

    def give_up(self, ordinals: Sequence[int], reason: str) -> None:
        """Store these episodes as FAILED with this reason."""
        self.add(build_failed_batch(self.plan, ordinals, reason))

    def store_held_back(self) -> None:
        """Store the episodes held back for models that were not stopped, and keep why; call this at the end."""
        held_back, self._held_back = self._held_back, {}
        for group, batches in held_back.items():
            if group not in self.stop_reasons:
                self.stop_reasons[group] = _describe_refusals(group, batches)
                for batch in batches:
                    self._store(batch)

    def take_new_stops(self) -> Iterator[tuple[str, frozenset[int]]]:
        """Yield the worker group and the episodes of each request group that has stopped since the last call."""
        while self._new_stops:
            group = self._new_stops.pop()
            names = ((cell.model.name, cell.condition.name, cell.protocol.value) for cell in self.plan.cells)
            indexes = {index for index, cell_group in enumerate(names) if cell_group == group}
            yield self.worker_groups[group.model], self.plan.ordinals(indexes)

    def _answers(self, group: RequestGroup) -> bool:
        return group in self.answering_groups and group not in self.stop_reasons

    def _hold_refused(self, batch: EpisodeBatch, groups: Sequence[RequestGroup]) -> EpisodeBatch:
        """Hold back refused episodes of groups without an answer; return the rest of the batch."""
        rows = zip(batch.ordinals, batch.episodes["turns"], groups, strict=True)
        hold = [n in batch.rejected and not turns and not self._answers(group) for n, turns, group in rows]
        for held_group in dict.fromkeys(compress(groups, hold)):
            keep = [is_held and group == held_group for is_held, group in zip(hold, groups, strict=True)]
            self._hold(held_group, select_episodes(batch, keep))
        return select_episodes(batch, [not is_held for is_held in hold]) if any(hold) else batch

    def _hold(self, group: RequestGroup, batch: EpisodeBatch) -> None:
        batches = self._held_back.setdefault(group, [])
        batches.append(batch)
        count = sum(len(part.ordinals) for part in batches)
        if count >= REFUSALS_TO_STOP and group not in self.stop_reasons:
            self._new_stops.append(group)
            effect = ", so it is stopped there and none of them is stored"
            self.stop_reasons[group] = _describe_refusals(group, batches, effect)
            log.warning("%s", self.stop_reasons[group])

    def _store(self, batch: EpisodeBatch) -> None:
        groups = [*map(self.worker_groups.__getitem__, batch.episodes["model"])]
        self.stored_per_group.update(groups)
        endings = zip(groups, batch.episodes["ending"], strict=True)
        self.errors.update(group for group, ending in endings if ending in ERRORS)
        self.store.append(batch)
        self._on_stored(batch)


def _describe_refusals(group: RequestGroup, batches: Sequence[EpisodeBatch], effect: str = "") -> str:
    count, last = sum(len(batch.ordinals) for batch in batches), batches[-1].episodes["error"][-1]
    return f"{group.model} refused all of its first {count} requests under {group.condition}{effect}; the last: {last}"


def select_episodes(batch: EpisodeBatch, keep: Sequence[bool]) -> EpisodeBatch:
    """Return the batch without discarded episodes, their turns and options."""
    keys = set(compress(batch.episodes["key"], keep))

    def filter_rows(columns: Columns) -> Columns:
        is_kept = [key in keys for key in columns["key"]]
        return {name: list(compress(values, is_kept)) for name, values in columns.items()}

    episodes, turns, options = map(filter_rows, (batch.episodes, batch.turns, batch.options))
    return EpisodeBatch(list(compress(batch.ordinals, keep)), episodes, turns, batch.rejected, options)


def build_failed_batch(plan: Plan, ordinals: Sequence[int], reason: str) -> EpisodeBatch:
    """Return an episode without turns for each ordinal, with ``reason`` as its error; no table counts FAILED as an answer."""
    episodes = []
    for ordinal in ordinals:
        index, sample = plan.task(ordinal)
        key, seed = plan.key(index, sample), plan.episode_seed(sample, plan.cells[index].condition)
        failed = Episode(key, sample, seed, (), Ending.FAILED, reason, 0.0)
        episodes.append(PlayedEpisode(ordinal, plan.cells[index], failed))
    return episode_batch(episodes)
