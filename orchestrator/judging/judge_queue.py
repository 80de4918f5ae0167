"""The queue between those who write open-ended answers and the judge who reads them.

It holds a bounded number of answers in memory; whatever does not fit is read back from the store when it is leased.
An answer has the ordinal of its episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from actors.playing.judge import Judged
from actors.playing.judge_runner import LeasedAnswer, judge_key
from actors.playing.records import EpisodeBatch, JudgedAnswer, VerdictBatch, VerdictRows
from envs.types import Ending
from orchestrator.planning.plan import Plan, judge_group
from orchestrator.storage import verdict_store
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.verdict_store import VerdictStore
from sweeps.load import SweepError
from sweeps.spec import Judge, Protocol, Sweep

MAX_HELD = 8192
"""Answers held in memory; of 8,000 characters each they take some 100 MB."""


class JudgeQueue:
    """Answers on their way to a judge, and its verdicts on their way to the disk."""

    def __init__(self, judge: Judge, plan: Plan, store: EpisodeStore, backlog: Sequence[int] = ()) -> None:
        """``backlog``: ordinals of stored answers that wait for a verdict. Raises ValueError as ``judge_key`` does."""
        self.judge, self.plan, self.store = judge, plan, store
        self.group, self.key = judge_group(judge), judge_key(judge)
        self.verdicts = VerdictStore(store.folder)
        self.backlog = list(backlog)
        """What the schedule starts with."""
        self.stored_count = 0
        """Verdicts stored by this attempt."""
        self._held: dict[int, str] = {}
        self._judged: set[int] = set()

    def add_answers(self, batch: EpisodeBatch) -> list[int]:
        """The ordinals of the answers among a batch's episodes, which now wait to be read."""
        replies = dict(zip(batch.turns["key"], batch.turns["reply"], strict=True))
        answers = []
        for ordinal, key, ending in zip(batch.ordinals, batch.episodes["key"], batch.episodes["ending"], strict=True):
            if ending == Ending.ANSWERED:
                answers.append(ordinal)
                if len(self._held) < MAX_HELD:
                    self._held[ordinal] = replies[key]
        return answers

    def lease(self, ordinals: Sequence[int]) -> list[LeasedAnswer]:
        """The answers of these ordinals; those that were not held, or were lost with a worker, come from the store.

        One that the store does not have either (its row could not be stored, or its part is gone) is left out: it is pending.
        """
        held = {ordinal: self._held.pop(ordinal) for ordinal in ordinals if ordinal in self._held}
        missing = {self._key(ordinal): ordinal for ordinal in ordinals if ordinal not in held}
        if missing:
            self.store.flush()
            held |= {
                missing[key]: text for key, text in verdict_store.final_replies(self.store.folder, missing).items()
            }
        return [LeasedAnswer(ordinal, held[ordinal]) for ordinal in ordinals if ordinal in held]

    def store_verdicts(self, batch: VerdictBatch) -> None:
        """Store a batch of verdicts, the first on each answer: late duplicates of a presumed-dead worker are dropped."""
        new = [ordinal not in self._judged for ordinal in batch.ordinals]
        self._judged.update(batch.ordinals)
        rows = batch.verdicts
        self.verdicts.append({name: [v for v, is_new in zip(rows[name], new, strict=True) if is_new] for name in rows})
        self.stored_count += sum(new)

    def give_up(self, ordinals: Iterable[int], reason: str) -> None:
        """Store that no judge could be brought to read these, and why."""
        rows = VerdictRows(self.key)
        for ordinal in ordinals:
            index, sample = self.plan.task(ordinal)
            unread = Judged(None, "", 0, reason, True, 0.0, 0, 0, 0.0)
            rows.add(JudgedAnswer(ordinal, self.plan.cells[index], sample.id, self.plan.key(index, sample), unread))
        self.store_verdicts(rows.batch())

    def flush(self, always: bool = False) -> None:
        """Make verdicts durable that waited long enough, their episodes first."""
        if always or self.verdicts.due:
            self.store.flush()
            self.verdicts.flush()

    def _key(self, ordinal: int) -> str:
        return self.plan.key(*self.plan.task(ordinal))


def check_wording(judge: Judge | None, played: Sweep | None = None) -> None:
    """Raise SweepError where the paper's wording is wanted and absent, or a sweep that was ``played`` leaves nothing to read."""
    if played and played.turn_judge and not played.is_judged:
        raise SweepError(
            "answers of oeg-multi were read while they were played; another judge is another run, with its own [judge]"
        )
    try:
        judge_key(judge) if judge else None
    except ValueError as problem:
        raise SweepError(str(problem)) from None


def find_unjudged(plan: Plan, episodes: pl.LazyFrame, folder: Path, judge: Judge, again: bool = False) -> list[int]:
    """Ordinals of the plan's stored answers that the judge has no verdict on; ``episodes`` are those of the plan."""
    pending = set(verdict_store.pending_answers(episodes, folder, judge_key(judge), again)["key"])
    if not pending:
        return []
    return [
        plan.offsets[index] + number
        for index, cell in enumerate(plan.cells)
        if cell.protocol is Protocol.OEG
        for number, key in enumerate(plan.keys(index))
        if key in pending
    ]
