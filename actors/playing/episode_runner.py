"""Plays leased episodes side by side beside the engine; nothing is sent anywhere per turn.

Every leased episode leaves in exactly one batch, or ``play`` raises.
"""

from __future__ import annotations

import typing
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from weakref import WeakSet

from actors.engine.backend import Backend
from actors.playing.lease import LeaseState
from actors.playing.play import play
from actors.playing.prompts import apply_condition, examples
from actors.playing.records import EpisodeBatch, EpisodeRows, PlayedEpisode
from actors.playing.turn_judge import TurnJudge
from envs.installed import find_offer, require_identity
from envs.types import Sample
from sweeps.conditions import Condition
from sweeps.spec import Cell, Judge, Protocol


class PlanView(typing.Protocol):
    """What a worker needs of a plan (``orchestrator.planning.plan.Plan``)."""

    @property
    def cells(self) -> tuple[Cell, ...]: ...
    @property
    def pools(self) -> Mapping[str, tuple[Sample, ...]]: ...
    @property
    def seed(self) -> int: ...
    @property
    def turn_judge(self) -> Judge | None: ...

    def task(self, ordinal: int) -> tuple[int, Sample]: ...
    def key(self, index: int, sample: Sample) -> str: ...
    def episode_seed(self, sample: Sample, condition: Condition | None = None) -> int: ...


class EpisodeRunner:
    """Plays the episodes of one group of models."""

    def __init__(
        self, plan: PlanView, backends: Mapping[str, Backend], in_flight: int, judge: TurnJudge | None = None
    ) -> None:
        """``backends``: model name -> its engine; ``in_flight``: episodes to play at once; ``judge``: of ``oeg-multi``.

        Raises PackageError where a scenario of the plan is of an installed package, and this machine has not the same one.
        """
        for name, package in {(cell.scenario, cell.package) for cell in plan.cells if cell.package}:
            require_identity(find_offer("scenario", name), package)
        self.plan, self.backends, self.in_flight, self.judge = plan, backends, in_flight, judge
        self._leases: WeakSet[LeaseState[int, PlayedEpisode, EpisodeBatch]] = WeakSet()

    def play(self, ordinals: Sequence[int]) -> AsyncIterator[EpisodeBatch]:
        """Batches of finished episodes, in the order in which they finish; raises as ``LeaseState.batches``."""
        lease = LeaseState(ordinals, self._episode, EpisodeRows)
        self._leases.add(lease)
        return lease.batches(self.in_flight)

    def recall(self, ordinals: Collection[int]) -> None:
        """Leave out what is not begun of these episodes, in the leases of this moment."""
        for lease in self._leases:
            lease.recall(ordinals)

    async def _episode(self, ordinal: int) -> PlayedEpisode:
        index, sample = self.plan.task(ordinal)
        cell, seed = self.plan.cells[index], self.plan.episode_seed(sample, self.plan.cells[index].condition)
        staged_sample = apply_condition(sample, cell.condition, self.plan.seed)
        pool, small = self.plan.pools[sample.scenario], cell.model.small_examples
        shots = examples(sample, pool, cell.condition, self.plan.seed, small)
        key = self.plan.key(index, sample)
        backend = self.backends[cell.model.name]
        with backend.in_play():  # a batch goes out when every episode in play waits
            played = await play(staged_sample, cell, backend, key, seed, shots, self.judge)
        return PlayedEpisode(ordinal, cell, played)


def judge_needed(plan: PlanView, models: Collection[str]) -> Judge | None:
    """The judge that answers of these models wait for, turn by turn; None where none of their cells needs one."""
    waits = any(cell.protocol is Protocol.OEG_MULTI and cell.model.name in models for cell in plan.cells)
    return plan.turn_judge if waits else None
