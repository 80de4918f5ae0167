"""Judges leased answers concurrently in the engine's process.

Every leased answer gets exactly one verdict or is recalled before its judging begins, or ``judge`` raises.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from weakref import WeakSet

from actors.engine.backend import Backend
from actors.playing.episode_runner import PlanView
from actors.playing.judge import JudgeTrial, judge_answer, name_judge, read_paper_wording
from actors.playing.lease import LeaseState
from actors.playing.records import AnswerTask, JudgedAnswer, VerdictBatch, verdict_batch
from envs import openended
from sweeps.spec import Judge
from sweeps.values import digest


@dataclass(frozen=True, slots=True)
class LeasedAnswer:
    ordinal: int
    """The plan's number of the answer's episode; with a ``task`` of its own, a number beyond the plan."""
    text: str
    task: AnswerTask | None = field(default=None, compare=False)
    """The question, if it is not part of the plan."""


def judge_key(judge: Judge) -> str:
    """Return the judge's name and instruction with a hash of what changes its verdicts: ``qwen3-8b/ours-3fa9c1d2``.

    Raises PackageError if the instruction is the paper's and its package is not installed.
    """
    name, wording = openended.JUDGE_VERSION, openended.instruction("question", ("one", "two"), "answer")
    if judge.instruction == "paper":
        name, wording = "paper", "\0".join(read_paper_wording())
    return name_judge(judge, judge.instruction, f"{name}:{sha256(wording.encode()).hexdigest()[:16]}")


def planned_task(plan: PlanView, ordinal: int) -> AnswerTask:
    """Return the question of an episode of the plan."""
    index, sample = plan.task(ordinal)
    return AnswerTask(plan.cells[index], sample, plan.key(index, sample))


class JudgeRunner:
    def __init__(self, plan: PlanView, judge: Judge, backend: Backend, in_flight: int) -> None:
        """``in_flight``: answers to judge at once. Raises PackageError like ``judge_key``."""
        self.plan, self.spec, self.backend, self.in_flight = plan, judge, backend, in_flight
        self.key, self.trial = judge_key(judge), JudgeTrial(judge.model.name)
        self._leases: WeakSet[LeaseState[LeasedAnswer, JudgedAnswer, VerdictBatch]] = WeakSet()

    def judge(
        self, answers: Sequence[LeasedAnswer], reads: bool = False, batch_age: float = 0.0
    ) -> AsyncIterator[VerdictBatch]:
        """Yield verdicts in the order in which they are ready; ``batch_age`` and errors as in ``LeaseState``.

        Raises ModelStopped if the judge fails its trial (``JudgeTrial``). ``reads``: True if it has read enough answers
        before, so that it needs no trial.
        """
        self.trial.passed |= reads
        lease = LeaseState(answers, self._judge_one, partial(verdict_batch, self.key), batch_age)
        self._leases.add(lease)
        return lease.batches(self.in_flight)

    def recall(self, ordinals: Collection[int]) -> None:
        """Skip the answers of these episodes in all running leases, unless their judging has begun."""
        for lease in self._leases:
            lease.recall([answer for answer in lease.items if answer.ordinal in ordinals])

    async def _judge_one(self, answer: LeasedAnswer) -> JudgedAnswer:
        task = answer.task or planned_task(self.plan, answer.ordinal)
        seed = int(digest(f"{self.plan.seed}/{task.key}/{self.key}", 7), 16)
        judging = partial(judge_answer, task.sample, task.cell, answer.text, self.spec, self.backend, seed)
        return JudgedAnswer(answer.ordinal, task, await self.trial.run(judging))
