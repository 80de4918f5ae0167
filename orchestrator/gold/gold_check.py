"""The gold check: before a judge reads the models' answers, it reads gold answers, whose true verdicts are known.

It is done once per run folder and judge (with its wording and revision). The judge's verdicts are stored under ``gold/`` in
the format of all verdicts, so that a killed check goes on.
"""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from actors.playing.judge_runner import LeasedAnswer, judge_key
from actors.playing.records import AnswerTask
from envs.openended import Bits
from envs.sample_line import parse_sample
from envs.types import Ending
from orchestrator.gold.labels import BITS
from orchestrator.report.statistics.judge_error import Confusion
from orchestrator.storage.verdict_store import judge_names, pending_answers, verdicts
from sweeps.conditions import CONDITIONS
from sweeps.spec import Cell, Judge, ModelSpec, Protocol
from sweeps.values import digest

FILE = Path(__file__).with_name("answers.json")
WRITER = ModelSpec(name="gold", source="builtin:refuse", backend="builtin")
"""Stands for the model that wrote the gold answers: the keys of their verdicts need the name of a model."""


class GoldAnswer(NamedTuple):
    """A shipped answer with its true verdict."""

    task: AnswerTask
    text: str
    truth: Bits


@cache
def load_gold_answers() -> tuple[GoldAnswer, ...]:
    """Return the shipped answers, one of each sample in turn, so that a judge that fails on a scenario is noticed early."""
    by_sample = [_read_sample(entry) for entry in json.loads(FILE.read_text("utf-8"))]
    longest = max(map(len, by_sample))
    return tuple(answers[number] for number in range(longest) for answers in by_sample if number < len(answers))


def _read_sample(entry: dict[str, Any]) -> list[GoldAnswer]:
    scenario = entry["scenario"]
    sample = parse_sample(json.dumps(entry["sample"]), scenario)
    cell = Cell(model=WRITER, scenario=scenario, condition=CONDITIONS["zero-shot"], protocol=Protocol.OEG)
    answers = []
    for answer in entry["answers"]:
        key = f"{cell.key}/{sample.id:04d}-{digest(sample.digest + answer['text'], 8)}"
        truth = Bits(category=answer["category"], suggestion=answer["suggestion"])
        answers.append(GoldAnswer(AnswerTask(cell, sample, key), answer["text"], truth))
    return answers


FOLDER = "gold"
"""The folder in a run folder with the verdicts on gold answers."""


class GoldScore:
    """The accuracy of a judge on the gold answers."""

    def __init__(self, folder: Path, judge: str) -> None:
        """Read the verdicts on gold answers in a run folder; ``judge`` is the judge's key."""
        self.judge, answers, bits = judge, load_gold_answers(), (*BITS, "aggregate")
        truths = {f"{bit}_true": [getattr(answer.truth, bit) for answer in answers] for bit in bits}
        true_bits = pl.LazyFrame({"key": [answer.task.key for answer in answers], **truths})
        stored = verdicts(folder / FOLDER).filter(judge=judge).select("key", *bits)
        judged = true_bits.join(stored, on="key").collect()
        self.planned, self.judged = len(answers), judged.height
        self.verdicts = judged.drop_nulls()
        """The answers that got a verdict: its bits, and the true ones as ``BIT_true``."""

    def counts(self, bit: str) -> Confusion:
        """Return the counts of true and given values of a bit."""
        return Confusion.of(self.verdicts[f"{bit}_true"], self.verdicts[bit])

    @property
    def kappa(self) -> float:
        """Return the smaller kappa of the two bits; 0 for a judge that gave no verdict."""
        return min(self.counts(bit).kappa for bit in BITS)

    def sentences(self) -> Iterator[str]:
        """Yield a line for each bit; no line if the judge has not judged any gold answer."""
        if not self.judged:
            return
        read, unfinished = self.verdicts.height, self.planned - self.judged
        to_come = f", {unfinished:,} to come" if unfinished else ""
        yield f"gold check of {self.judge}: {read} of {self.judged:,} answers with known verdicts read{to_come}"
        for bit in BITS:
            counts = self.counts(bit)
            right = f"{counts.hits} of {counts.hits + counts.misses} found"
            wrong = f"{counts.false_alarms} of {counts.false_alarms + counts.rejections} wrongly"
            yield f"  {bit}: {right}, {wrong}, kappa {counts.kappa:.2f}"


def find_unread(folder: Path, judge: str, first: int) -> dict[int, LeasedAnswer]:
    """Return the gold answers that a judge (its key) has still to read, by ordinal; the shipped ones begin at ``first``."""
    answers = load_gold_answers()
    keys = pl.LazyFrame({"key": [answer.task.key for answer in answers]}).with_columns(ending=pl.lit(Ending.ANSWERED))
    unread = set(pending_answers(keys, folder / FOLDER, judge)["key"])
    return {
        ordinal: LeasedAnswer(ordinal, answer.text, answer.task)
        for ordinal, answer in enumerate(answers, first)
        if answer.task.key in unread
    }


def stop_reason(folder: Path, judge: Judge) -> str:
    """Return why a judge that has read the gold answers may not read the models' answers; empty if it may."""
    if not judge.gold_check or judge.min_kappa is None:
        return ""
    kappa = GoldScore(folder, judge_key(judge)).kappa
    if kappa >= judge.min_kappa:
        return ""
    return (
        f"its kappa on answers with known verdicts is {kappa:.2f}, below min_kappa = {judge.min_kappa:g}, so it reads no"
        " answer of a model; choose another judge, or a smaller min_kappa"
    )


def gold_notes(folder: Path, judges: Iterable[str] = ()) -> tuple[str, ...]:
    """Return lines about the gold checks of these judges (by default of all judges), which are printed under their tables."""
    names = tuple(judges) or judge_names(folder / FOLDER)
    return tuple(line for judge in names for line in GoldScore(folder, judge).sentences())


def describe_cost(judge: Judge, folder: Path) -> list[str]:
    """Return the line that ``plan`` prints about the requests of a pending gold check; empty for a judge without a model."""
    if not judge.gold_check or judge.model.backend == "builtin":
        return []
    score = GoldScore(folder, judge_key(judge))
    left = score.planned - score.judged
    most = f" to {left * judge.attempts:,}" if judge.attempts > 1 else ""
    line = f"gold check: {judge.model.name} first reads {left:,} answers with known verdicts, {left:,}{most} requests"
    return [f"{line}; gold_check = false in [judge] leaves it out"] if left > 0 else []
