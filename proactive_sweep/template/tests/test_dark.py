"""The scenario keeps the contract of all scenarios, and the policy does what it says."""

import pytest
from proactive_dark.draw import draw
from proactive_dark.policy import ask_once

from actors.engine.backend import Situation
from envs import SCENARIOS
from envs.check import check
from envs.contract import check_scenario
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
    assert check(data, ["DARK"], deep=True).ok, "every picture is there"


def test_the_policy_asks_once(data):
    game, sample = SCENARIOS["DARK"], read_samples(data, "DARK")[0][0]
    state = game.initial(sample)
    said = ask_once(Situation(sample, state, game.view(sample, state)), 0)
    state, _ = game.step(sample, state, said)

    assert said == "Turn up the light."
    assert ask_once(Situation(sample, state, game.view(sample, state)), 0) in sample.categories
