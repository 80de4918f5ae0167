"""The queue between the models that write open-ended answers and the judge that reads them.

It holds a bounded number of answers in memory and reads the others from the store when they are leased. The ordinal of an
answer is that of its episode.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path

import polars as pl

from actors.playing.judge import Judged
from actors.playing.judge_runner import LeasedAnswer, judge_key, planned_task
from actors.playing.judge_trial import LONG_TRIAL, reads_nothing
from actors.playing.records import AnswerTask, Columns, EpisodeBatch, JudgedAnswer, VerdictBatch, verdict_batch
from envs.types import Ending
from orchestrator.gold.gold_check import FOLDER, GoldCheck
from orchestrator.planning.plan import Plan, judge_group
from orchestrator.storage import verdict_store
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.part_files import list_parts
from orchestrator.storage.verdict_store import VerdictStore
from sweeps.load import SweepError
from sweeps.spec import Judge, Protocol, Sweep

MAX_CACHED_ANSWERS = 8192
"""Largest number of answers in memory; with 8,000 characters each they take some 100 MB."""


class JudgeQueue:
    """The answers that one judge still has to read, and its verdicts that are not stored yet."""

    def __init__(self, judge: Judge, plan: Plan, store: EpisodeStore, backlog: Sequence[int] = ()) -> None:
        """Start with a ``backlog`` of stored answers without a verdict; raises ValueError as ``judge_key`` does.

        Models' answers wait until the judge has read the gold answers, if it reads them (``GoldCheck``).
        """
        self.judge, self.plan, self.store = judge, plan, store
        self.group, self.key = judge_group(judge), judge_key(judge)
        self.verdicts = VerdictStore(store.folder)
        self.backlog = list(backlog)
        """Ordinals of answers that are read after the gold answers."""
        self.rereads_gold = judge.gold_check and bool(list_parts(store.folder / FOLDER).bad)
        """True if verdicts on gold answers are damaged: they are moved aside, and the answers read again."""
        check = GoldCheck(store.folder, self.key, plan.total, judge.min_kappa) if judge.gold_check else None
        self.gold_check = check if check and check.pending else None
        """The check of the gold answers; None if the judge has read them, or reads none."""
        self.stop_reason = check.stop_reason if check else ""
        """Why the judge may not read the models' answers; empty if it may."""
        self.read_count = self.judged_count = 0
        """In this attempt, the number of verdicts, and of answers that the judge was asked about."""
        self._reads = reads_answers(store.folder, self.key) or bool(check and check.read_before)
        self._cached_answers: dict[int, str] = {}
        self._judged_ordinals: set[int] = set()

    @property
    def reads(self) -> bool:
        """True if the judge gave verdicts before this attempt, or on enough of the answers of this attempt."""
        enough = self.judged_count >= LONG_TRIAL and not reads_nothing(self.read_count, self.judged_count)
        self._reads = self._reads or enough
        return self._reads

    @property
    def first_answers(self) -> Sequence[int]:
        """The ordinals to read first: the gold answers that the judge has not read, or the backlog if it has read all."""
        if self.stop_reason:
            return ()
        return sorted(self.gold_check.pending) if self.gold_check else self.backlog

    def add_answers(self, batch: EpisodeBatch) -> list[int]:
        """Queue the answers in a batch of episodes; return the ordinals of the answers that the judge may read now."""
        replies = dict(zip(batch.turns["key"], batch.turns["reply"], strict=True))
        rows = zip(batch.ordinals, batch.episodes["key"], batch.episodes["ending"], strict=True)
        answers = {ordinal: replies[key] for ordinal, key, ending in rows if ending == Ending.ANSWERED}
        for ordinal in list(answers)[: MAX_CACHED_ANSWERS - len(self._cached_answers)]:
            self._cached_answers[ordinal] = answers[ordinal]
        if self.gold_check or self.stop_reason:
            self.backlog += answers
            return []
        return list(answers)

    def take_released(self) -> list[int]:
        """Return the answers that waited for the gold check, at the first call after its end; empty otherwise.

        Also empty if the check has stopped the judge.
        """
        if self.gold_check is None or self.gold_check.pending:
            return []
        self.stop_reason, self._reads, self.gold_check = self.gold_check.stop_reason, True, None
        return [] if self.stop_reason else self.backlog

    def lease(self, ordinals: Sequence[int]) -> list[LeasedAnswer]:
        """Return the answers of these ordinals, from memory or from the store.

        An answer that is in neither (its row could not be stored, or its file is gone) is left out and stays pending.
        """
        gold = [
            self.gold_check.lease(ordinal) for ordinal in ordinals if self.gold_check and ordinal >= self.plan.total
        ]
        ordinals = [ordinal for ordinal in ordinals if ordinal < self.plan.total]
        cached = self._cached_answers
        texts = {ordinal: cached.pop(ordinal) for ordinal in ordinals if ordinal in cached}
        stored = {self.plan.key(*self.plan.task(ordinal)): ordinal for ordinal in ordinals if ordinal not in texts}
        if stored:
            self.store.flush()
            replies = verdict_store.final_replies(self.store.folder, stored)
            texts |= {stored[key]: text for key, text in replies.items()}
        return [*gold, *(LeasedAnswer(ordinal, texts[ordinal]) for ordinal in ordinals if ordinal in texts)]

    def store_verdicts(self, batch: VerdictBatch) -> None:
        """Store the first verdict on each answer; drop duplicates of a worker that was presumed dead."""
        new = [ordinal not in self._judged_ordinals for ordinal in batch.ordinals]
        self._judged_ordinals.update(batch.ordinals)
        gold = [ordinal >= self.plan.total for ordinal in batch.ordinals]
        if self.gold_check and any(gold):
            chosen = [is_new and is_gold for is_new, is_gold in zip(new, gold, strict=True)]
            self.gold_check.store_verdicts(list(compress(batch.ordinals, gold)), _select(batch, chosen))
        new = [is_new and not is_gold for is_new, is_gold in zip(new, gold, strict=True)]
        self.verdicts.append(_select(batch, new))
        self.judged_count += sum(new)
        self.read_count += sum(bit is not None for bit in compress(batch.verdicts["aggregate"], new))

    def give_up(self, ordinals: Iterable[int], reason: str) -> None:
        """Store these answers as unjudged, with the reason."""
        answers = [JudgedAnswer(ordinal, self._task(ordinal), Judged(reason=reason)) for ordinal in ordinals]
        self.store_verdicts(verdict_batch(self.key, answers))

    def flush(self, always: bool = False) -> None:
        """If verdicts are due, or ``always``, write the episodes to disk and then the verdicts."""
        if always or self.verdicts.due:
            self.store.flush()
            self.verdicts.flush()

    def _task(self, ordinal: int) -> AnswerTask:
        if self.gold_check and ordinal >= self.plan.total:
            return self.gold_check.answers[ordinal - self.plan.total].task
        return planned_task(self.plan, ordinal)


def _select(batch: VerdictBatch, keep: Sequence[bool]) -> Columns:
    return {name: list(compress(values, keep)) for name, values in batch.verdicts.items()}


def check_wording(judge: Judge | None, played: Sweep | None = None) -> None:
    """Raise SweepError if the judge needs the paper's wording and it is absent, or if ``played`` has no answers for it.

    The answers of ``oeg-multi`` are read while their episodes are played, so no other judge can read them later.
    """
    if played and played.turn_judge and not played.is_judged:
        raise SweepError(
            "answers of oeg-multi were read while they were played; to use another judge, play a run with that [judge]"
        )
    try:
        judge_key(judge) if judge else None
    except ValueError as problem:
        raise SweepError(str(problem)) from None


def find_unjudged(plan: Plan, stored: pl.LazyFrame, folder: Path, judge: Judge, again: bool = False) -> list[int]:
    """Return the ordinals of answers among the plan's ``stored`` episodes that the judge has not read yet.

    Answers on which it gave no verdict are included with ``again``, or if it has given hardly any verdict so far: then the
    judge was broken, and may work now.
    """
    again = again or not reads_answers(folder, judge_key(judge))
    keys = set(verdict_store.pending_answers(stored, folder, judge_key(judge), again)["key"])
    cells = (index for index, cell in enumerate(plan.cells) if keys and cell.protocol is Protocol.OEG)
    return [ordinal for index in cells for ordinal, key in plan.numbered_keys(index) if key in keys]


def reads_answers(folder: Path, key: str) -> bool:
    """Return True if this judge has given verdicts in the run folder, on enough of the answers that it was asked about."""
    counts = pl.col("aggregate").count(), pl.len()
    read, judged = verdict_store.verdicts(folder).filter(judge=key).select(counts).collect().row(0)
    return judged > 0 and not reads_nothing(read, judged)
