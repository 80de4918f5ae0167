"""Golden files pin the first question of every scenario under both conditions; a changed letter is another experiment."""

from pathlib import Path

import pytest

from actors.playing.play import select_rules
from orchestrator.inspection.prompt_preview import format_messages
from sweeps.conditions import VARIANTS
from sweeps.spec import Cell, ModelSpec
from tests.envs.games import SAMPLES

MODEL = ModelSpec(name="m", source="x", backend="transformers", gpus=0)


@pytest.mark.parametrize("condition", ["every-frame", "every-state"])
@pytest.mark.parametrize("name", SAMPLES)
def test_the_first_question_is_the_golden_one(name, condition):
    cell = Cell(model=MODEL, scenario=name, condition=VARIANTS[condition])
    rules = select_rules(SAMPLES[name], cell, "key", 0, (), None)
    text = format_messages(rules.pose(rules.initial(), ()).messages) + "\n"

    assert text == (Path(__file__).parent / "golden" / f"{name}-{condition}.txt").read_text(encoding="utf-8")
