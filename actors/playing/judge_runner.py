"""Judges leased answers concurrently in the engine's process.

Every leased answer gets exactly one verdict, or ``judge`` raises.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from typing import NamedTuple
from weakref import WeakSet

from actors.engine.backend import Backend
from actors.engine.in_flight import expected_in_flight
from actors.playing.episode_runner import PlanView
from actors.playing.judge import RULES, instruction_hash, judge
from actors.playing.lease import LeaseState
from actors.playing.records import JudgedAnswer, VerdictBatch, verdict_batch
from envs import rulejudge
from sweeps.spec import Judge
from sweeps.values import digest


class LeasedAnswer(NamedTuple):
    """One answer to judge."""

    ordinal: int
    """The plan's number of the episode that ended with the answer."""
    text: str


def judge_key(judge: Judge) -> str:
    """Return judge, instruction, and a hash of everything that changes a verdict: ``qwen3-8b/ours-3fa9c1d2``.

    Raises ValueError if the instruction is the paper's and its package is not installed.
    """
    identity = [judge.model.identity, judge.sampling.identity, judge.attempts, instruction_hash(judge)]
    identity += [rulejudge.fingerprint()] if judge.model.source == RULES else []
    return f"{judge.model.name}/{judge.instruction}-{digest(json.dumps(identity, sort_keys=True), 4)}"


class JudgeRunner:
    """One judge with its engine."""

    def __init__(self, plan: PlanView, judge: Judge, backend: Backend, in_flight: int | None = None) -> None:
        """``in_flight``: answers to judge at once, by default the entry's number. Raises ValueError as ``judge_key``."""
        self.plan, self.spec, self.backend, self.key = plan, judge, backend, judge_key(judge)
        self.in_flight = in_flight or expected_in_flight(judge.model)
        self._leases: WeakSet[LeaseState[LeasedAnswer, JudgedAnswer, VerdictBatch]] = WeakSet()

    def judge(self, answers: Sequence[LeasedAnswer]) -> AsyncIterator[VerdictBatch]:
        """Stream verdicts in the order in which they are ready; raises as ``LeaseState.batches``."""
        lease = LeaseState(answers, self._verdict, partial(verdict_batch, self.key))
        self._leases.add(lease)
        return lease.batches(self.in_flight)

    def recall(self, ordinals: Collection[int]) -> None:
        """Skip the answers of these episodes that have not begun, in all running leases."""
        for lease in self._leases:
            lease.recall([answer for answer in lease.items if answer.ordinal in ordinals])

    async def _verdict(self, answer: LeasedAnswer) -> JudgedAnswer:
        index, sample = self.plan.task(answer.ordinal)
        cell, key = self.plan.cells[index], self.plan.key(index, sample)
        seed = int(digest(f"{self.plan.seed}/{key}/{self.key}", 7), 16)
        judged = await judge(sample, cell, answer.text, self.spec, self.backend, seed)
        return JudgedAnswer(answer.ordinal, cell, sample.id, key, judged)
