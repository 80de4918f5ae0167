"""Plays leased episodes concurrently in the engine's process, without a remote call per turn.

Every leased episode is yielded in exactly one batch or recalled before it begins, or ``play`` raises.
"""

import typing
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from weakref import WeakSet

from actors.engine.backend import Backend
from actors.playing.judge import TurnJudge
from actors.playing.lease import LeaseState
from actors.playing.play import play
from actors.playing.prompts import apply_condition, examples
from actors.playing.records import EpisodeBatch, PlayedEpisode, episode_batch
from envs.installed import find_offer
from envs.types import Sample
from sweeps.conditions import Condition
from sweeps.spec import Cell, Judge, Protocol


class PlanView(typing.Protocol):
    """The part of a plan that a worker uses (``orchestrator.planning.plan.Plan``)."""

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
        """``backends``: model name -> engine; ``in_flight``: episodes to play at once; ``judge``: reads ``oeg-multi``.

        Raises PackageError if the plan needs a scenario or rules of a package that this machine lacks, or has in another version.
        """
        offers = {("scenario", cell.scenario, cell.package) for cell in plan.cells if cell.package}
        offers |= {("condition", cell.condition.rules, "") for cell in plan.cells if cell.condition.rules}
        for offer in offers:
            find_offer(*offer)
        self.plan, self.backends, self.in_flight, self.judge = plan, backends, in_flight, judge
        self._leases: WeakSet[LeaseState[int, PlayedEpisode, EpisodeBatch]] = WeakSet()

    def play(self, ordinals: Sequence[int], batch_age: float = 0.0) -> AsyncIterator[EpisodeBatch]:
        """Yield episodes in the order in which they finish; ``batch_age`` and errors as in ``LeaseState``."""
        lease = LeaseState(ordinals, self.play_episode, episode_batch, batch_age)
        self._leases.add(lease)
        return lease.batches(self.in_flight)

    def recall(self, ordinals: Collection[int]) -> None:
        """Skip these episodes in all running leases, unless they have begun."""
        for lease in self._leases:
            lease.recall(ordinals)

    async def play_episode(self, ordinal: int) -> PlayedEpisode:
        """Play one episode of the plan."""
        plan = self.plan
        index, sample = plan.task(ordinal)
        cell, key, pool = plan.cells[index], plan.key(index, sample), plan.pools[sample.scenario]
        seed = plan.episode_seed(sample, cell.condition)
        shots = examples(sample, pool, cell.condition, plan.seed, cell.model.small_examples)
        sample = apply_condition(sample, cell.condition, plan.seed)
        backend = self.backends[cell.model.name]
        episode = await play(sample, cell, backend, key, seed, shots, self.judge)
        return PlayedEpisode(ordinal, cell, episode)


def judge_needed(plan: PlanView, models: Collection[str]) -> Judge | None:
    """Return the judge that these models need while they play; None if they need no judge."""
    is_needed = any(cell.protocol is Protocol.OEG_MULTI and cell.model.name in models for cell in plan.cells)
    return plan.turn_judge if is_needed else None
