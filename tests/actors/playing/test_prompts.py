"""Golden files pin the conversation of every scenario and condition; a changed letter is another experiment.

``UPDATE_GOLDEN=1 pytest tests/actors/playing/test_prompts.py`` writes the files anew; raise ``prompts.VERSIONS`` with them.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from actors.playing.prompts import answers_left, apply_condition, examples, version
from envs import SCENARIOS
from envs.foreign_suggestions import FOREIGN
from envs.samples import BadData
from envs.scenario import suggestions
from orchestrator.inspection.prompt_preview import conversation, format_messages
from sweeps.conditions import CONDITIONS, VARIANTS, Condition
from sweeps.registry import registry
from sweeps.spec import Protocol
from tests.envs.games import SAMPLES

GOLDEN = Path(__file__).with_name("golden")
EVERY = {**CONDITIONS, **VARIANTS}
CELLS = [(n, c) for n in SCENARIOS for c in EVERY.values() if not c.scenarios or n in c.scenarios]


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
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")

    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize("name", ["ROD", "MVP-N"])
def test_examples_are_drawn_by_seed_and_never_show_the_sample_itself(name, shots):
    condition = Condition(name="x", shots=shots)
    for sample in pool(name):
        messages = examples(sample, pool(name), condition, seed=2)
        assert messages == examples(sample, list(pool(name)), condition, seed=2)
        assert not any(sample.prompt in message.text for message in messages)
    assert len({examples(pool(name)[0], pool(name), condition, seed) for seed in range(20)}) > 5


@pytest.mark.parametrize("name", ["ROD", "MVP-N"])
def test_examples_keep_picture_size_except_phi_4_and_ablation(name):
    """Appendix E: for Phi-4 alone ROD's are 512 pixels, and MVP-N's have two steps each where there are three examples."""

    def edges(condition, small=False):
        messages = examples(SAMPLES[name], pool(name), EVERY[condition], 0, small)
        return [image.short_edge for message in messages for image in message.images]

    steps = {"ROD": 2, "MVP-N": 4}[name]
    for shots in (1, 3):
        assert edges(f"icl-{shots}") == [None] * steps * shots
        assert edges(f"icl-{shots}-small") == [SCENARIOS[name].example_edge] * steps * shots
        expected_steps = 2 if shots == 3 else steps
        assert edges(f"icl-{shots}", small=True) == [512 if name == "ROD" else None] * expected_steps * shots
    assert [m.name for m in registry().values() if m.small_examples] == ["phi-4-multimodal"]


def test_only_conditions_whose_messages_changed_have_new_keys():
    changed = {name for name, condition in EVERY.items() if version(Protocol.MCQA, condition) != "mcqa-1"}
    assert changed == {name for name in EVERY if name.startswith(("icl", "random")) or name == "lenient"}
    assert all(version(Protocol.OEG, EVERY[name]) == "oeg-1" for name in ("zero-shot", "hint", "reference"))


def test_a_reasoned_example_carries_the_wording_and_still_scores():
    (_, reply_message, _, last) = examples(SAMPLES["ROD"], pool("ROD"), Condition(name="x", shots=1, reasoned=True), 0)
    game, sample = SCENARIOS["ROD"], pool("ROD")[0]

    assert reply_message.text.startswith("I cannot see what is behind the occluding object.")
    _, turn = game.step(sample, game.initial(sample), reply_message.text)
    assert turn.move is not None
    assert last.text == "Banana."


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_variant_changes_what_it_names_and_nothing_else(name):
    sample = SAMPLES[name]

    def conversation_of(condition, turn=0):
        return conversation(sample, pool(name), EVERY[condition], seed=1, turn=turn)

    plain, mixed, budgeted = (
        conversation_of("zero-shot")[0],
        conversation_of("shuffled")[0],
        conversation_of("budget")[0],
    )
    assert conversation_of("lenient") == conversation_of("zero-shot")
    assert sorted(line[3:] for line in mixed.text.split("\n")) == sorted(line[3:] for line in plain.text.split("\n"))
    assert budgeted.text.replace(answers_left(SCENARIOS[name].limit(sample)), "") == plain.text
    assert [image.path for m in conversation_of("history", 1) for image in m.images] == [
        image.path for m in conversation_of("history-full-size", 1) for image in m.images
    ]
    assert all(image.short_edge is None for m in conversation_of("history-full-size", 1) for image in m.images)


@pytest.mark.parametrize("condition", [c for c in VARIANTS.values() if c.source], ids=lambda c: c.name)
def test_suggestions_of_one_scenario_come_from_it_alone(condition):
    for name in condition.scenarios:
        offered = suggestions(apply_condition(SAMPLES[name], condition, 3).options)
        assert set(offered) <= set(FOREIGN[condition.source])


def test_another_seed_shuffles_another_way_and_the_answer_stays():
    orders = [apply_condition(SAMPLES["ROD"], VARIANTS["shuffled"], seed) for seed in range(20)]

    assert len({(sample.options, sample.categories) for sample in orders}) > 10
    assert all(
        set(sample.options) == set(SAMPLES["ROD"].options) and sample.answer in sample.categories for sample in orders
    )


def test_too_small_pool_is_reported():
    with pytest.raises(ValueError, match="needs 3 other ROD samples, the data has 0"):
        examples(SAMPLES["ROD"], [SAMPLES["ROD"]], CONDITIONS["icl-3"], 0)


def test_missing_turn_is_reported():
    with pytest.raises(BadData, match="turn 5 is its last"):
        conversation(SAMPLES["QD"], [], CONDITIONS["zero-shot"], turn=9)
