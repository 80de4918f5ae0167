"""The queue between the models that write open-ended answers and the judge that reads them.

It holds a bounded number of answers in memory and reads the others from the store when they are leased. The ordinal of an
answer is that of its episode.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from pathlib import Path

from actors.playing.judge import LONG_TRIAL, Judged, reads_nothing
from actors.playing.judge_runner import LeasedAnswer, judge_key, planned_task
from actors.playing.records import AnswerTask, Columns, EpisodeBatch, JudgedAnswer, VerdictBatch, verdict_batch
from envs.types import Ending
from orchestrator.gold import gold_check
from orchestrator.gold.gold_check import FOLDER
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.plan import Plan, judge_group
from orchestrator.storage import safe_write
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.part_files import list_parts
from orchestrator.storage.verdict_store import VerdictStore, final_replies, pending_answers, reads_answers
from sweeps.load import SweepError
from sweeps.spec import Judge, Protocol, Sweep

MAX_CACHED_ANSWERS = 8192
"""Largest number of answers in memory; with 8,000 characters each they take some 100 MB."""


class JudgeQueue:
    """The answers that one judge still has to read, and its verdicts that are not stored yet."""

    def __init__(self, judge: Judge, plan: Plan, store: EpisodeStore, backlog: Sequence[int] = ()) -> None:
        """Start with a ``backlog`` of stored answers without a verdict; raises PackageError as ``judge_key`` does.

        Models' answers wait until the judge has read the gold answers, if it reads them (``gold_check``).
        """
        self.rereads_gold = judge.gold_check and bool(list_parts(store.folder / FOLDER).bad)
        """True if verdicts on gold answers are damaged: their store moves them aside, and the answers are read again."""
        self.judge, self.plan, self.store = judge, plan, store
        self.group, self.key = judge_group(judge), judge_key(judge)
        self.verdicts, self.gold_verdicts = VerdictStore(store.folder), VerdictStore(store.folder / FOLDER)
        self.backlog = list(backlog)
        """Ordinals of answers that are read after the gold answers."""
        self.gold = gold_check.find_unread(store.folder, self.key, plan.total) if judge.gold_check else {}
        """The gold answers that the judge had to read when the attempt began, by ordinal (from ``plan.total``)."""
        self.unread_gold = set(self.gold)
        self.reads_gold = bool(self.gold)
        """True until the judge has read the gold answers, for which the models' answers wait."""
        self.stop_reason = "" if self.reads_gold else gold_check.stop_reason(store.folder, judge)
        """Why the judge may not read the models' answers; empty if it may, or while it reads the gold answers."""
        self.read_count = self.judged_count = 0
        """In this attempt, the number of verdicts, and of answers that the judge was asked about."""
        self._reads = any(reads_answers(place, self.key) for place in (store.folder, store.folder / FOLDER))
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
        return sorted(self.unread_gold) if self.reads_gold else self.backlog

    def add_answers(self, batch: EpisodeBatch) -> list[int]:
        """Queue the answers in a batch of episodes; return the ordinals of the answers that the judge may read now."""
        replies = dict(zip(batch.turns["key"], batch.turns["reply"], strict=True))
        rows = zip(batch.ordinals, batch.episodes["key"], batch.episodes["ending"], strict=True)
        answers = {ordinal: replies[key] for ordinal, key, ending in rows if ending == Ending.ANSWERED}
        for ordinal in list(answers)[: MAX_CACHED_ANSWERS - len(self._cached_answers)]:
            self._cached_answers[ordinal] = answers[ordinal]
        if self.reads_gold or self.stop_reason:
            self.backlog += answers
            return []
        return list(answers)

    def take_released(self) -> list[int]:
        """Return the answers that waited for the gold check at the first call after it let the judge read; else none."""
        if self.unread_gold or not self.reads_gold:
            return []
        self.reads_gold, self._reads = False, True
        self.stop_reason = gold_check.stop_reason(self.store.folder, self.judge)
        return [] if self.stop_reason else self.backlog

    def lease(self, ordinals: Sequence[int]) -> list[LeasedAnswer]:
        """Return the answers of these ordinals, from memory or from the store.

        An answer that is in neither (its row could not be stored, or its file is gone) is left out and stays pending.
        """
        gold = [self.gold[ordinal] for ordinal in ordinals if ordinal in self.gold]
        ordinals = [ordinal for ordinal in ordinals if ordinal < self.plan.total]
        cached = self._cached_answers
        texts = {ordinal: cached.pop(ordinal) for ordinal in ordinals if ordinal in cached}
        stored = {self.plan.key(*self.plan.task(ordinal)): ordinal for ordinal in ordinals if ordinal not in texts}
        if stored:
            self.store.flush()
            replies = final_replies(self.store.folder, stored)
            texts |= {stored[key]: text for key, text in replies.items()}
        return [*gold, *(LeasedAnswer(ordinal, texts[ordinal]) for ordinal in ordinals if ordinal in texts)]

    def store_verdicts(self, batch: VerdictBatch) -> None:
        """Store the first verdict on each answer; drop duplicates of a worker that was presumed dead."""
        new = [ordinal not in self._judged_ordinals for ordinal in batch.ordinals]
        self._judged_ordinals.update(batch.ordinals)
        gold = [is_new and ordinal in self.gold for is_new, ordinal in zip(new, batch.ordinals, strict=True)]
        if any(gold):
            self.unread_gold.difference_update(batch.ordinals)
            safe_write.make_folder(self.gold_verdicts.folder)
            self.gold_verdicts.append(_select(batch, gold))
            self.gold_verdicts.flush() if self.unread_gold else self.gold_verdicts.compact()
        new = [is_new and ordinal not in self.gold for is_new, ordinal in zip(new, batch.ordinals, strict=True)]
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
        gold = self.gold.get(ordinal)
        return (gold and gold.task) or planned_task(self.plan, ordinal)


def _select(batch: VerdictBatch, keep: Sequence[bool]) -> Columns:
    return {name: list(compress(values, keep)) for name, values in batch.verdicts.items()}


def check_wording(judge: Judge | None, played: Sweep | None = None) -> None:
    """Raise SweepError if the judge needs the paper's wording and it is absent, or if ``played`` has no answers for it.

    The answers of ``oeg-multi`` are read while their episodes are played, so no other judge can read them later.
    """
    if played and Protocol.OEG not in played.protocols:
        were_read = (
            "answers of oeg-multi were read while they were played; to use another judge, play a run with that [judge]"
        )
        raise SweepError(were_read if played.turn_judge else "the run has no open-ended answers to judge")
    try:
        judge_key(judge) if judge else None
    except ValueError as problem:
        raise SweepError(str(problem)) from None


def find_unjudged(plan: Plan, folder: Path, judge: Judge, again: bool = False) -> list[int]:
    """Return the ordinals of the stored answers that the judge has not read; with ``again`` also those without a verdict."""
    keys = set(pending_answers(stored_episodes(plan, folder), folder, judge_key(judge), again)["key"])
    cells = (index for index, cell in enumerate(plan.cells) if keys and cell.protocol is Protocol.OEG)
    numbered = chain.from_iterable(enumerate(plan.keys(index), plan.offsets[index]) for index in cells)
    return [ordinal for ordinal, key in numbered if key in keys]
