"""The scenario keeps the contract of all scenarios; the policy, the judge and the measure do what they say."""

import polars as pl
import pytest
from proactive_dark.draw import draw
from proactive_dark.judge import literal_judge
from proactive_dark.measure import asked_and_right
from proactive_dark.policy import ask_once

from actors.engine.backend import Situation
from envs import SCENARIOS
from envs.check import check
from envs.contract import check_scenario
from envs.openended import read_verdict
from envs.samples import read_samples


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    draw(folder)
    return folder


def test_the_scenario_keeps_the_contract(data):
    samples, problems = read_samples(data, "DARK")

    assert len(samples) == 12 and not problems
    for sample in samples:
        check_scenario(SCENARIOS["DARK"], sample)


def test_every_picture_is_there(data):
    assert list(check(data, ["DARK"], deep=True).lines())[-1] == "all good"


def test_the_policy_asks_once(data):
    game, sample = SCENARIOS["DARK"], read_samples(data, "DARK")[0][0]
    state = game.initial(sample)
    said = ask_once(Situation(sample, state, game.view(sample, state)), 0)
    state, _ = game.step(sample, state, said)

    assert said == "Turn up the light."
    assert ask_once(Situation(sample, state, game.view(sample, state)), 0) in sample.categories


def test_the_judge_tells_a_request_from_an_answer(data):
    game, sample = SCENARIOS["DARK"], read_samples(data, "DARK")[0][0]
    state = game.initial(sample)
    for answer, suggestion in {"Please turn up the light": True, f"I see a {sample.answer}": False}.items():
        reply = literal_judge(Situation(sample, state, game.view(sample, state), answer=answer), 0)
        verdict = read_verdict(reply, "DARK", 2)
        assert (verdict.suggestion, verdict.category) == (suggestion, not suggestion)


def test_the_measure_counts_episodes_that_asked_and_were_right():
    episodes = pl.LazyFrame(
        {"key": ["a", "b", "c", "d"], "suggestions": [1, 0, 2, 1], "correct": [True, True, False, None]}
    )
    assert dict(asked_and_right(episodes, pl.LazyFrame()).collect().rows()) == {"a": 100.0, "b": 0.0, "c": 0.0}
