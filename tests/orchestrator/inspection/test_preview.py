"""Prompts as a user sees them before a run: turns, samples, judges and functions, and what cannot be previewed."""

import pytest

from envs import SCENARIOS
from envs.samples import BadData, load_samples
from orchestrator.inspection.prompt_preview import apply_chat_template, find_judge, find_request, find_sample, pose
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
    first, second, third, *_ = pose(sample, [sample], cell_of(condition="history"))[0]
    asked = game.askable(sample, game.initial(sample))[0]
    assert [message.text for message in third.messages if message.role == "assistant"] == [asked, asked]
    assert len({message.images for message in third.messages if message.images}) == 3
    assert third.messages[:3] == second.messages and second.messages[:1] == first.messages


def test_a_turn_that_no_episode_reaches_is_a_sentence(sample):
    limit = SCENARIOS["QD"].limit(sample)
    find_request(sample, [sample], cell_of(), limit - 1)
    for condition, turn, last in (
        ("zero-shot", limit, limit - 1),
        ("zero-shot", limit + 3, limit - 1),
        ("reference", 1, 0),
    ):
        with pytest.raises(BadData, match=f"sample {sample.id} of QD has no turn {turn}: turn {last} is its last"):
            find_request(sample, [sample], cell_of(condition=condition), turn)


def test_each_protocol_and_the_judge_have_their_own_prompt(sample):
    def prompt(protocol=Protocol.MCQA, turn=0, judge=None):
        return find_request(sample, [sample], cell_of(protocol=protocol), turn, judge).messages

    plain, later, opened = prompt(), prompt(turn=1), prompt(Protocol.OEG)
    assert len(plain) == len(later) == len(opened) == 1 and plain[0].images != later[0].images
    assert "\nA. " in plain[0].text and "\nA. " not in opened[0].text and opened[0].images == plain[0].images
    assert prompt(Protocol.OEG_MULTI, 1)[0].images == later[0].images
    judge = find_judge("qwen3-8b", Protocol.OEG, 0)
    read, in_play = prompt(Protocol.OEG, 0, judge), prompt(Protocol.OEG_MULTI, 1, judge)
    assert "(the model's answer)" in read[-1].text and not read[-1].images
    assert "Could you please" in in_play[-1].text and in_play != read


def test_a_sample_is_named_by_its_id_or_the_nearest_is(demo_data):
    every = load_samples(demo_data, "ROD", filtered=False)
    sample, pool = find_sample(demo_data, "ROD", every[3].id)
    assert sample.id == every[3].id and {other.id for other in pool} <= {other.id for other in every} and pool
    largest = every[-1].id
    with pytest.raises(BadData, match=f"no sample with id {largest + 5}; ids run from {every[0].id} to {largest}"):
        find_sample(demo_data, "ROD", largest + 5)


def test_templates_are_of_models_on_this_machine_and_judges_read_answers(sample):
    request = find_request(sample, [sample], cell_of())
    assert apply_chat_template(registry()["oracle"], request) is None
    for name, protocol, turn in (("rule-judge", Protocol.MCQA, 0), ("", Protocol.OEG, 1)):
        with pytest.raises(SweepError, match=r"--judge reads open-ended|has one turn, 0, not 1"):
            find_judge(name, protocol, turn)
