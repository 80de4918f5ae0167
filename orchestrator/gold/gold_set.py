"""The gold answers: open-ended answers with known verdicts, over all scenarios (their origin: README.md of this folder)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from actors.playing.judge_runner import AnswerTask
from envs.openended import Bits
from envs.sample_line import parse_sample
from sweeps.conditions import CONDITIONS
from sweeps.spec import Cell, ModelSpec, Protocol
from sweeps.values import digest

FILE = Path(__file__).with_name("answers.json")
WRITER = ModelSpec(name="gold", source="builtin:refuse", backend="builtin")
"""The name under which the answers' verdicts are stored; no model."""


class GoldAnswer(NamedTuple):
    """One answer with its true verdict."""

    task: AnswerTask
    text: str
    truth: Bits


@cache
def load_gold_answers() -> tuple[GoldAnswer, ...]:
    """Return the shipped answers, scenarios in turn, so that a judge that fails on one is noticed early."""
    by_sample = [_read_sample(entry) for entry in json.loads(FILE.read_text("utf-8"))]
    longest = max(map(len, by_sample))
    return tuple(answers[number] for number in range(longest) for answers in by_sample if number < len(answers))


def _read_sample(entry: dict[str, object]) -> list[GoldAnswer]:
    scenario, line, answers = str(entry["scenario"]), json.dumps(entry["sample"]), entry["answers"]
    assert isinstance(answers, list), "answers of a gold sample are a list"
    sample = parse_sample(line, scenario)
    cell = Cell(model=WRITER, scenario=scenario, condition=CONDITIONS["zero-shot"], protocol=Protocol.OEG)
    return [
        GoldAnswer(
            AnswerTask(cell, sample, f"{cell.key}/{sample.id:04d}-{digest(sample.digest + answer['text'], 8)}"),
            answer["text"],
            Bits(category=answer["category"], suggestion=answer["suggestion"]),
        )
        for answer in answers
    ]
