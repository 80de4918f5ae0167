"""The conversation of every scenario and condition, letter for letter: a change here is another experiment.

``UPDATE_GOLDEN=1 pytest tests/actors/test_prompts.py`` writes the files anew; raise ``prompts.VERSION`` with them.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from actors.prompts import examples
from envs import SCENARIOS
from envs.samples import BadData
from orchestrator.prompt import conversation, written
from sweeps.spec import CONDITIONS, Condition
from tests.envs.games import SAMPLES

GOLDEN = Path(__file__).with_name("golden")
CELLS = [(n, c) for n in SCENARIOS for c in CONDITIONS.values() if not c.scenarios or n in c.scenarios]


def pool(name):
    return [replace(SAMPLES[name], id=n, prompt=f"What is number {n}?", digest=f"d{n}") for n in range(12)]


@pytest.mark.parametrize(("name", "condition"), CELLS, ids=lambda x: getattr(x, "name", x))
def test_the_conversation_is_the_golden_one(name, condition):
    turn = 1 if condition.history else 0
    text = written(conversation(SAMPLES[name], pool(name), condition, seed=0, turn=turn)) + "\n"
    path = GOLDEN / f"{name}-{condition.name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize("name", ["ROD", "MVP-N"])
def test_examples_are_drawn_by_seed_and_never_show_the_sample_itself(name, shots):
    condition = Condition(name="x", shots=shots)
    for sample in pool(name):
        drawn = examples(sample, pool(name), condition, seed=2)
        assert drawn == examples(sample, list(pool(name)), condition, seed=2)
        assert not any(sample.prompt in message.text for message in drawn)
    assert len({examples(pool(name)[0], pool(name), condition, seed) for seed in range(20)}) > 5


def test_a_reasoned_example_carries_the_wording_and_still_scores():
    (_, said, _, last) = examples(SAMPLES["ROD"], pool("ROD"), Condition(name="x", shots=1, reasoned=True), 0)
    game, sample = SCENARIOS["ROD"], pool("ROD")[0]

    assert said.text.startswith("I cannot see what is behind the occluding object.")
    _, turn = game.step(sample, game.initial(sample), said.text)
    assert turn.move is not None
    assert last.text == "Banana."


def test_too_small_a_pool_is_a_sentence():
    with pytest.raises(ValueError, match="needs 3 other ROD samples, the data has 0"):
        examples(SAMPLES["ROD"], [SAMPLES["ROD"]], CONDITIONS["icl-3"], 0)


def test_a_turn_that_does_not_exist_is_a_sentence():
    with pytest.raises(BadData, match="turn 5 is its last"):
        conversation(SAMPLES["QD"], [], CONDITIONS["zero-shot"], turn=9)
