"""The queue between the models that write open-ended answers and the judge that reads them.

It holds a bounded number of answers in memory and reads the others back from the store when they are leased. An answer has
the ordinal of its episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path

import polars as pl

from actors.playing.judge import Judged
from actors.playing.judge_runner import LeasedAnswer, judge_key
from actors.playing.records import EpisodeBatch, JudgedAnswer, VerdictBatch, verdict_batch
from envs.types import Ending
from orchestrator.planning.plan import Plan, judge_group
from orchestrator.storage import verdict_store
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.verdict_store import VerdictStore
from sweeps.load import SweepError
from sweeps.spec import Judge, Protocol, Sweep

MAX_CACHED_ANSWERS = 8192
"""Answers kept in memory; at 8,000 characters each they take some 100 MB."""


class JudgeQueue:
    """Answers on their way to a judge, and its verdicts on their way to the disk."""

    def __init__(self, judge: Judge, plan: Plan, store: EpisodeStore, backlog: Sequence[int] = ()) -> None:
        """Start with a ``backlog`` of stored answers without a verdict; raises ValueError as ``judge_key`` does."""
        self.judge, self.plan, self.store = judge, plan, store
        self.group, self.key = judge_group(judge), judge_key(judge)
        self.verdicts = VerdictStore(store.folder)
        self.backlog = list(backlog)
        self.stored_count = 0
        """Verdicts stored by this attempt."""
        self._cached_answers: dict[int, str] = {}
        self._judged_ordinals: set[int] = set()

    def add_answers(self, batch: EpisodeBatch) -> list[int]:
        """Queue the answers among a batch's episodes; return their ordinals."""
        replies = dict(zip(batch.turns["key"], batch.turns["reply"], strict=True))
        rows = zip(batch.ordinals, batch.episodes["key"], batch.episodes["ending"], strict=True)
        answers = {ordinal: replies[key] for ordinal, key, ending in rows if ending == Ending.ANSWERED}
        for ordinal in list(answers)[: max(0, MAX_CACHED_ANSWERS - len(self._cached_answers))]:
            self._cached_answers[ordinal] = answers[ordinal]
        return list(answers)

    def lease(self, ordinals: Sequence[int]) -> list[LeasedAnswer]:
        """Return the answers of these ordinals, from memory or from the store.

        An answer that is in neither (its row could not be stored, or its part is gone) is omitted and stays pending.
        """
        cached = self._cached_answers
        texts = {ordinal: cached.pop(ordinal) for ordinal in ordinals if ordinal in cached}
        stored = {self._key(ordinal): ordinal for ordinal in ordinals if ordinal not in texts}
        if stored:
            self.store.flush()
            replies = verdict_store.final_replies(self.store.folder, stored)
            texts |= {stored[key]: text for key, text in replies.items()}
        return [LeasedAnswer(ordinal, texts[ordinal]) for ordinal in ordinals if ordinal in texts]

    def store_verdicts(self, batch: VerdictBatch) -> None:
        """Store the first verdict on each answer; drop duplicates of a worker that was presumed dead."""
        new = [ordinal not in self._judged_ordinals for ordinal in batch.ordinals]
        self._judged_ordinals.update(batch.ordinals)
        self.verdicts.append({name: list(compress(values, new)) for name, values in batch.verdicts.items()})
        self.stored_count += sum(new)

    def give_up(self, ordinals: Iterable[int], reason: str) -> None:
        """Store these answers as unjudged, with the reason."""
        answers = []
        for ordinal in ordinals:
            index, sample = self.plan.task(ordinal)
            unjudged = Judged(None, "", 0, reason, True, 0.0, 0, 0, 0.0)
            answers.append(JudgedAnswer(ordinal, self.plan.cells[index], sample.id, self._key(ordinal), unjudged))
        self.store_verdicts(verdict_batch(self.key, answers))

    def flush(self, always: bool = False) -> None:
        """Make verdicts durable if they are due or ``always``, their episodes first."""
        if always or self.verdicts.due:
            self.store.flush()
            self.verdicts.flush()

    def _key(self, ordinal: int) -> str:
        return self.plan.key(*self.plan.task(ordinal))


def check_wording(judge: Judge | None, played: Sweep | None = None) -> None:
    """Raise SweepError if the judge needs the paper's wording and it is absent, or if ``played`` leaves it no answers."""
    if played and played.turn_judge and not played.is_judged:
        raise SweepError(
            "answers of oeg-multi were read while they were played; another judge is another run, with its own [judge]"
        )
    try:
        judge_key(judge) if judge else None
    except ValueError as problem:
        raise SweepError(str(problem)) from None


def find_unjudged(plan: Plan, episodes: pl.LazyFrame, folder: Path, judge: Judge, again: bool = False) -> list[int]:
    """Return the ordinals of answers among the plan's ``episodes`` on which the judge has no verdict.

    With ``again``, answers that it could give no verdict on are included.
    """
    keys = set(verdict_store.pending_answers(episodes, folder, judge_key(judge), again)["key"])
    cells = (index for index, cell in enumerate(plan.cells) if keys and cell.protocol is Protocol.OEG)
    return [ordinal for index in cells for ordinal, key in plan.numbered_keys(index) if key in keys]
