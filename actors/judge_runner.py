"""A panel reads leased answers side by side: every leased answer leaves with exactly one verdict, or the panel raises."""

from __future__ import annotations

import json
from typing import Any

from actors.backend import Backend
from actors.episode_runner import EpisodeRunner, LeaseState, PlanView
from actors.judge import Judged, instruction_hash, judge
from envs import rulejudge
from envs.openended import Bits
from sweeps.spec import Cell, Judge
from sweeps.values import digest

Columns = dict[str, list[Any]]
RULES = "builtin:rule-judge"

VERDICT_COLUMNS = (
    "key", "judge", "cell", "model", "scenario", "condition", "sample_id", "category", "suggestion", "aggregate",
    "reason", "first_failed", "attempts", "text", "seconds", "prompt_tokens", "reply_tokens", "cost",
    "strict_category", "strict_suggestion", "strict_aggregate",
)  # fmt: skip


def judge_key(judge: Judge) -> str:
    """``qwen3-8b/ours-3fa9c1d2``: which judge read with which instruction, and a hash of all that changes a verdict.

    Raises ValueError when the instruction is the paper's and its package is not installed.
    """
    identity = [judge.model.identity, judge.sampling.model_dump(mode="json"), judge.attempts, instruction_hash(judge)]
    identity += [rulejudge.fingerprint()] if judge.model.source == RULES else []
    return f"{judge.model.name}/{judge.instruction}-{digest(json.dumps(identity, sort_keys=True), 4)}"


class Verdicts:
    """Rows of verdicts with the ordinals of their episodes, filled one at a time."""

    def __init__(self, judge: str) -> None:
        self.judge = judge
        self.ordinals: list[int] = []
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self.ordinals)

    def add(self, ordinal: int, cell: Cell, sample_id: int, key: str, judged: Judged) -> None:
        """Append one verdict; one that nobody gave has no bits, and says why."""
        three, strict = _three(judged.bits), _three(judged.strict)
        self.ordinals.append(ordinal)
        self._rows.append(
            (
                key, self.judge, cell.key, cell.model.name, cell.scenario, cell.condition.name, sample_id, *three,
                judged.reason or None, judged.first_failed, judged.attempts, judged.text, judged.seconds,
                judged.prompt_tokens, judged.reply_tokens, judged.cost, *strict,
            )
        )  # fmt: skip

    def content(self) -> dict[str, Any]:
        """What goes over the wire: ``{"ordinals": [...], "verdicts": {...}}``."""
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(VERDICT_COLUMNS)
        rows = {name: list(values) for name, values in zip(VERDICT_COLUMNS, columns, strict=True)}
        return {"ordinals": self.ordinals, "verdicts": rows}


def _three(bits: Bits | None) -> tuple[bool | None, bool | None, bool | None]:
    return (None, None, None) if bits is None else (bits.category, bits.suggestion, bits.aggregate)


class JudgeRunner(EpisodeRunner):
    """Reads what a judge is given: pairs of an episode's ordinal and the answer it ended with."""

    def __init__(self, book: PlanView, judge: Judge, backend: Backend) -> None:
        super().__init__(book, {judge.model.name: backend}, judge.model.in_flight)
        self.judge, self.backend, self.name = judge, backend, judge_key(judge)

    def open(self) -> Verdicts:
        """An empty block."""
        return Verdicts(self.name)

    async def episode(self, leased: tuple[int, str], shift: LeaseState) -> None:
        """Read one answer and add its verdict to whichever block is open then."""
        ordinal, answer = leased
        index, sample = self.book.task(ordinal)
        cell, key = self.book.cells[index], self.book.key(index, sample)
        seed = int(digest(f"{self.book.seed}/{key}/{self.name}", 7), 16)
        judged = await judge(sample, cell, answer, self.judge, self.backend, seed)
        shift.block.add(ordinal, cell, sample.id, key, judged)
