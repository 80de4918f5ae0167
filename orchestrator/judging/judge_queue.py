"""The judge's desk holds a bounded pile of answers; whatever does not fit is read back from the store when its turn comes.

Answers are numbered behind the episodes (``total`` + ordinal), so that the schedule never takes one for the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from actors.judge import Judged
from actors.judge_runner import Verdicts, judge_key
from orchestrator.planning.plan import Plan, judge_group
from orchestrator.storage import verdict_store
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.verdict_store import VerdictStore
from sweeps.load import SweepError
from sweeps.spec import Judge, Protocol

PILE = 8192
"""Answers held in memory; of 8,000 characters each they take some 100 MB."""


class JudgeQueue:
    """Answers on their way to a judge, and its verdicts on their way to the disk."""

    def __init__(self, judge: Judge, plan: Plan, store: EpisodeStore, backlog: Sequence[int] = ()) -> None:
        """``backlog``: ordinals of stored answers that wait for a verdict. Raises ValueError as ``judge_key`` does."""
        self.judge, self.plan, self.store = judge, plan, store
        self.group, self.key = judge_group(judge), judge_key(judge)
        self.kept = VerdictStore(store.folder)
        self.backlog = [plan.total + ordinal for ordinal in backlog]
        """What the schedule starts with."""
        self.written = 0
        """Verdicts stored by this attempt."""
        self._pile: dict[int, str] = {}
        self._seen: set[int] = set()

    def take(self, content: dict[str, Any]) -> list[int]:
        """The numbers of the answers among a block's episodes, which are now here to be read."""
        arrived = dict(zip(content["turns"]["key"], content["turns"]["reply"], strict=True))
        numbers = []
        columns = content["episodes"]
        for ordinal, key, ending in zip(content["ordinals"], columns["key"], columns["ending"], strict=True):
            if ending == "answered":
                numbers.append(self.plan.total + ordinal)
                if len(self._pile) < PILE:
                    self._pile[numbers[-1]] = arrived[key]
        return numbers

    def lease(self, numbers: Iterable[int]) -> list[tuple[int, str]]:
        """Pairs of ordinal and answer, as a panel takes them; one that a worker lost comes from the store again."""
        numbers = list(numbers)
        held = {number: self._pile.pop(number) for number in numbers if number in self._pile}
        missing = {self._key(number): number for number in numbers if number not in held}
        if missing:
            self.store.flush()
            held |= {missing[key]: text for key, text in verdict_store.answers(self.store.folder, missing).items()}
        return [(number - self.plan.total, held[number]) for number in numbers]

    def add(self, content: dict[str, Any]) -> list[int]:
        """Store a block of verdicts, each answer's once; returns their numbers."""
        numbers = [self.plan.total + ordinal for ordinal in content["ordinals"]]
        fresh = [number not in self._seen for number in numbers]
        self._seen.update(numbers)
        rows = content["verdicts"]
        self.kept.append({name: [v for v, new in zip(rows[name], fresh, strict=True) if new] for name in rows})
        self.written += sum(fresh)
        return numbers

    def give_up(self, numbers: Iterable[int], reason: str) -> None:
        """Store that nobody could be brought to read these."""
        block = Verdicts(self.key)
        for number in numbers:
            index, sample = self.plan.task(number - self.plan.total)
            unread = Judged(None, "", 0, reason, True, 0.0, 0, 0, 0.0)
            block.add(number - self.plan.total, self.plan.cells[index], sample.id, self.plan.key(index, sample), unread)
        self.add(block.content())

    def flush(self, always: bool = False) -> None:
        """Make verdicts durable that waited long enough, their episodes first."""
        if always or self.kept.due:
            self.store.flush()
            self.kept.flush()

    def _key(self, number: int) -> str:
        return self.plan.key(*self.plan.task(number - self.plan.total))


def worded(judge: Judge) -> None:
    """Raise SweepError where the paper's wording is wanted and not installed."""
    try:
        judge_key(judge)
    except ValueError as problem:
        raise SweepError(str(problem)) from None


def unread(plan: Plan, episodes: pl.LazyFrame, folder: Path, judge: Judge, again: bool = False) -> list[int]:
    """Ordinals of the plan's stored answers that the judge has no verdict on; ``episodes`` are those of the plan."""
    pending = set(verdict_store.pending(episodes, folder, judge_key(judge), again)["key"])
    if not pending:
        return []
    return [
        plan.offsets[index] + number
        for index, cell in enumerate(plan.cells)
        if cell.protocol is Protocol.OEG
        for number, key in enumerate(plan.keys(index))
        if key in pending
    ]
