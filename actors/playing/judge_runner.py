"""Has leased answers read by a judge, side by side beside its engine.

Every leased answer leaves with exactly one verdict, or ``judge`` raises.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple
from weakref import WeakSet

from actors.engine.backend import Backend
from actors.engine.in_flight import expected_in_flight
from actors.playing.episode_runner import PlanView
from actors.playing.judge import RULES, instruction_hash, judge
from actors.playing.lease import LeaseState
from actors.playing.records import JudgedAnswer, VerdictBatch, VerdictRows
from envs import rulejudge
from sweeps.spec import Judge
from sweeps.values import digest


class LeasedAnswer(NamedTuple):
    """One answer for a judge to read."""

    ordinal: int
    """The plan's number of the episode that ended with it."""
    text: str


def judge_key(judge: Judge) -> str:
    """``qwen3-8b/ours-3fa9c1d2``: which judge read with which instruction, and a hash of all that changes a verdict.

    Raises ValueError when the instruction is the paper's and its package is not installed.
    """
    identity = [judge.model.identity, judge.sampling.identity, judge.attempts, instruction_hash(judge)]
    identity += [rulejudge.fingerprint()] if judge.model.source == RULES else []
    return f"{judge.model.name}/{judge.instruction}-{digest(json.dumps(identity, sort_keys=True), 4)}"


class JudgeRunner:
    """Has answers read by one judge."""

    def __init__(self, plan: PlanView, judge: Judge, backend: Backend, in_flight: int | None = None) -> None:
        """``in_flight``: answers to read at once, by default what the entry tells. Raises ValueError as ``judge_key``."""
        self.plan, self.spec, self.backend, self.key = plan, judge, backend, judge_key(judge)
        self.in_flight = in_flight or expected_in_flight(judge.model)
        self._leases: WeakSet[LeaseState[LeasedAnswer, JudgedAnswer, VerdictBatch]] = WeakSet()

    def judge(self, answers: Sequence[LeasedAnswer]) -> AsyncIterator[VerdictBatch]:
        """Batches of verdicts, in the order in which they are given; raises as ``LeaseState.batches``."""
        lease = LeaseState(answers, self._verdict, lambda: VerdictRows(self.key))
        self._leases.add(lease)
        return lease.batches(self.in_flight)

    def recall(self, ordinals: Collection[int]) -> None:
        """Leave out what is not begun of these answers, in the leases of this moment."""
        for lease in self._leases:
            lease.recall([answer for answer in lease.items if answer.ordinal in ordinals])

    async def _verdict(self, answer: LeasedAnswer) -> JudgedAnswer:
        index, sample = self.plan.task(answer.ordinal)
        cell, key = self.plan.cells[index], self.plan.key(index, sample)
        seed = int(digest(f"{self.plan.seed}/{key}/{self.key}", 7), 16)
        judged = await judge(sample, cell, answer.text, self.spec, self.backend, seed)
        return JudgedAnswer(answer.ordinal, cell, sample.id, key, judged)
