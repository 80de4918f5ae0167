"""Prompts as a user sees them before a run: turns, samples, judges and functions, and what cannot be previewed."""

import json

import pytest

from actors.engine.backend import Message
from envs import SCENARIOS
from envs.samples import BadData, load_samples
from orchestrator.inspection.prompt_preview import (
    apply_chat_template,
    build_prompt,
    find_judge,
    find_sample,
    format_messages,
    replay_asks,
    token_ids,
)
from sweeps.conditions import CONDITIONS
from sweeps.load import SweepError
from sweeps.registry import registry
from sweeps.spec import Cell, ModelSpec, Protocol


def cell_of(scenario="QD", condition="zero-shot", protocol=Protocol.MCQA, **entry) -> Cell:
    model = ModelSpec(**{"name": "m", "source": "org/m", "backend": "transformers", **entry})
    return Cell(model=model, scenario=scenario, condition=CONDITIONS[condition], protocol=protocol)


@pytest.fixture
def sample(demo_data):
    return load_samples(demo_data, "QD", filtered=False)[0]


def test_earlier_turns_are_answered_with_the_first_right_suggestion(sample):
    game = SCENARIOS["QD"]
    state, past = replay_asks(sample, CONDITIONS["history"], 2)
    assert state.turn == 2 and state.ending is None and len(past) == 2
    first = game.initial(sample, CONDITIONS["history"].mode, 0)
    assert past[0][1] == game.askable(sample, first)[0] and past[0][0].image != past[1][0].image
    assert replay_asks(sample, CONDITIONS["history"], 0) == (first, [])


def test_a_turn_that_no_episode_reaches_is_a_sentence(sample):
    limit = SCENARIOS["QD"].limit(sample)
    replay_asks(sample, CONDITIONS["zero-shot"], limit - 1)
    for turn in (limit, limit + 3):
        with pytest.raises(BadData) as refused:
            replay_asks(sample, CONDITIONS["zero-shot"], turn)
        assert str(refused.value) == f"sample {sample.id} of QD has no turn {turn}: turn {limit - 1} is its last"
    with pytest.raises(BadData) as refused:
        replay_asks(sample, CONDITIONS["reference"], 1)
    assert str(refused.value) == f"sample {sample.id} of QD has no turn 1: turn 0 is its last"


def test_messages_are_blocks_with_names_of_pictures(sample):
    (message,) = build_prompt(sample, [sample], cell_of())
    assert format_messages([message, Message("assistant", "A")]) == (
        f"[user]\n<picture {message.images[0].key}>\n{message.text}\n\n[assistant]\nA"
    )


def test_each_protocol_and_the_judge_have_their_own_prompt(sample):
    plain = build_prompt(sample, [sample], cell_of())
    later = build_prompt(sample, [sample], cell_of(), turn=1)
    opened = build_prompt(sample, [sample], cell_of(protocol=Protocol.OEG))
    assert len(plain) == len(later) == len(opened) == 1 and plain[0].images != later[0].images
    assert "\nA. " in plain[0].text and "\nA. " not in opened[0].text and opened[0].images == plain[0].images
    second = build_prompt(sample, [sample], cell_of(protocol=Protocol.OEG_MULTI), turn=1)
    assert second[0].images == later[0].images
    judge = find_judge("qwen3-8b", "a fish", Protocol.OEG, 0)
    read = build_prompt(sample, [sample], cell_of(protocol=Protocol.OEG), judge=judge, answer="a fish")
    assert "a fish" in read[-1].text and not read[-1].images
    in_play = build_prompt(sample, [sample], cell_of(protocol=Protocol.OEG_MULTI), judge=judge, answer="a fish", turn=1)
    assert "a fish" in in_play[-1].text and in_play != read


def test_functions_follow_as_lines_of_json_where_the_model_calls_natively(sample):
    native = build_prompt(sample, [sample], cell_of(protocol=Protocol.TOOLS, tools="hermes", backend="vllm"))
    text = build_prompt(sample, [sample], cell_of(protocol=Protocol.TOOLS))
    assert [message.role for message in native][-1] == "tools" and text[-1].role == "user"
    schemas = [json.loads(line) for line in native[-1].text.split("\n")]
    assert schemas and all(schema["function"]["name"] in text[-1].text for schema in schemas)


def test_swapped_pictures_are_those_of_another_sample(demo_data, sample):
    from sweeps.conditions import VARIANTS

    every = load_samples(demo_data, "QD", filtered=False)
    swapped = next(condition for condition in VARIANTS.values() if condition.picture == "swapped")
    for protocol in (Protocol.MCQA, Protocol.TOOLS):
        plain = cell_of(protocol=protocol)
        cell = plain.model_copy(update={"condition": swapped})
        own, other = (build_prompt(sample, every, each)[-1] for each in (plain, cell))
        assert own.text == other.text and own.images != other.images


def test_a_sample_is_named_by_its_id_or_the_nearest_is(demo_data):
    every = load_samples(demo_data, "ROD", filtered=False)
    sample, pool = find_sample(demo_data, "ROD", every[3].id)
    assert sample.id == every[3].id and {other.id for other in pool} <= {other.id for other in every} and pool
    largest = every[-1].id
    with pytest.raises(BadData) as refused:
        find_sample(demo_data, "ROD", largest + 5)
    assert str(refused.value) == (
        f"ROD has no sample with id {largest + 5}; the nearest id is {largest}, and ids run from {every[0].id} to {largest}"
    )
    with pytest.raises(BadData, match=f"the nearest id is {every[0].id}, and"):
        find_sample(demo_data, "ROD", -3)


def test_templates_and_tokens_are_of_models_on_this_machine(sample, demo_data):
    conversation = build_prompt(sample, [sample], cell_of())
    assert apply_chat_template(registry()["oracle"], conversation) is None
    for model, messages, sentence in (
        (
            registry()["oracle"],
            conversation,
            "oracle runs on builtin, which has no token ids here; use transformers or vllm",
        ),
        (cell_of().model, [Message("tools", "{}")], "--token-ids supports messages only; m also gets functions"),
    ):
        with pytest.raises(SweepError) as refused:
            token_ids(model, demo_data, messages, sample)
        assert str(refused.value) == sentence


def test_functions_are_given_to_the_template_apart_from_the_messages(monkeypatch):
    pytest.importorskip("transformers", reason="its engine is not installed")
    calls = []
    monkeypatch.setattr("actors.engine.hf.template.template_text", lambda *arguments: calls.append(arguments) or "text")
    model, question = cell_of(backend="vllm").model, Message("user", "What is this?")

    assert apply_chat_template(model, [question, Message("tools", '{"a": 1}\n{"b": 2}')]) == "text"
    assert apply_chat_template(model, [question]) == "text"
    assert calls == [(model, [question], [{"a": 1}, {"b": 2}]), (model, [question], [])]
