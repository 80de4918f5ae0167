"""Golden files pin the conversation of every scenario and condition; a changed letter is another experiment.

``UPDATE_GOLDEN=1 pytest tests/actors/playing/test_prompts.py`` writes the files anew; raise ``prompts.VERSIONS`` with them.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.playing.prompts import examples
from envs import SCENARIOS
from orchestrator.inspection.prompt_preview import find_request, format_messages
from sweeps.conditions import CONDITIONS, VARIANTS, Condition
from sweeps.load import build_cell
from tests.envs.games import SAMPLES
from tests.goldens import read_golden

GOLDEN = Path(__file__).with_name("golden")
EVERY = {name: condition for name, condition in (CONDITIONS | VARIANTS).items() if not condition.rules}
CELLS = [(n, c) for n in SCENARIOS for c in EVERY.values() if not c.scenarios or n in c.scenarios]


def conversation(sample, others, condition, seed=0, turn=0):
    cell = build_cell(sample.scenario, "zero-shot").model_copy(update={"condition": condition})
    return find_request(sample, others, cell, turn, seed=seed).messages


def pool(name):
    return [replace(SAMPLES[name], id=n, prompt=f"What is number {n}?", digest=f"d{n}") for n in range(12)]


def strangers(name):
    """Samples with other answers and pictures of their own."""
    sample = SAMPLES[name]
    return [replace(o, answer=sample.categories[o.id % 4], image=f"other{o.id}-{sample.image}") for o in pool(name)]


@pytest.mark.parametrize(("name", "condition"), CELLS, ids=lambda x: getattr(x, "name", x))
def test_conversation_matches_golden_file(name, condition):
    turn = 1 if condition.history else 0
    others = strangers(name) if condition.picture == "swapped" else pool(name)
    text = format_messages(conversation(SAMPLES[name], others, condition, seed=0, turn=turn)) + "\n"
    path = GOLDEN / f"{name}-{condition.name}.txt"
    assert read_golden(path, text) == text


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize("name", ["ROD", "MVP-N"])
def test_examples_are_drawn_by_seed_and_never_show_the_sample_itself(name, shots):
    condition = Condition(name="x", shots=shots)
    for sample in pool(name):
        messages = examples(sample, pool(name), condition, seed=2)
        assert messages == examples(sample, list(pool(name)), condition, seed=2)
        assert not any(sample.prompt in message.text for message in messages)
    assert len({examples(pool(name)[0], pool(name), condition, seed) for seed in range(20)}) > 5


def test_a_reasoned_example_carries_the_wording_and_still_scores():
    (_, reply_message, _, last) = examples(SAMPLES["ROD"], pool("ROD"), Condition(name="x", shots=1, reasoned=True), 0)
    game, sample = SCENARIOS["ROD"], pool("ROD")[0]

    assert reply_message.text.startswith("I cannot see what is behind the occluding object.")
    _, turn = game.step(sample, game.initial(sample), reply_message.text)
    assert turn.move is not None
    assert last.text == "Banana."
