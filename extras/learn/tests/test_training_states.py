"""States come from the path of a correct player, rewards from the game's verdict, and no state from a test sample."""

from dataclasses import replace

import pytest
from test_train_split import row, write

from envs import SCENARIOS
from envs.types import Action
from proactive_demo.drawing import draw
from proactive_learn.settings import TrainError, train_table
from proactive_learn.states import load_split_states, load_states, refuse_test_pictures, solution_path, state_order
from sweeps.load import build
from tests.envs.games import SAMPLES

NAMES = ("QD", "COCO")


@pytest.fixture(scope="module")
def states(demo_data):
    return load_states(demo_data, tuple(SCENARIOS), None, 0)


def sweep(folder):
    return build({"data": str(folder), "models": ["uniform"]}, "x.toml")


def test_rewards_are_the_games_verdict(states):
    for state in states:
        game = SCENARIOS[state.scenario]
        wrong = next(c for c in state.sample.categories if c != state.sample.answer)
        solution = game.solve(state.sample, state.state)
        assert state.outcome(solution).reward(0.25) == (1.0 if state.kind == "clear" else 0.25)
        assert state.outcome(wrong).reward(0.25) == state.outcome("what?").reward(0.25) == 0.0
        for ask in game.askable(state.sample, state.state):
            assert state.outcome(ask).is_suggestion and state.outcome(ask).action is Action.SUGGESTION
        if game.answerable(state.sample, state.state):
            assert state.outcome(state.sample.answer).reward(0.25) == 1.0


def test_each_pass_visits_every_state_once_in_an_order_of_the_seed():
    def order(seed):
        table = {"model": "qwen2.5-vl-3b", "data": "d", "steps": 5, "batch": 32, "seed": seed}
        return state_order(10, train_table({"train": table}, "x.toml"))

    assert order(1) == order(1) != order(2) and len(order(1)) == 20
    assert sorted(order(1)[:10]) == sorted(order(1)[10:]) == list(range(10))


@pytest.mark.parametrize("renamed", [False, True])
def test_test_samples_are_refused_by_their_pictures(demo_data, tmp_path, renamed):
    draw(tmp_path / "other", 8, 77, NAMES)
    own = load_states(tmp_path / "other", NAMES, None, 0)
    refuse_test_pictures(own, NAMES, sweep(demo_data), "other")
    stolen = next(state for state in load_states(demo_data, NAMES, None, 0) if state.kind == "clear")
    if renamed:
        stolen = replace(stolen, sample=replace(stolen.sample, id=4711))

    with pytest.raises(TrainError, match=r"other shows pictures that .* is scored on .* without test samples"):
        refuse_test_pictures([*own, stolen], NAMES, sweep(demo_data), "other")
    with pytest.raises(TrainError, match=r"hf://a/b must be a local folder"):
        refuse_test_pictures(own, NAMES, sweep("hf://a/b"), "mine")


def test_a_sample_that_shows_its_answer_at_once_has_one_clear_state():
    (state,) = solution_path(replace(SAMPLES["CIT"], first_frame=31), None)

    assert (state.kind, state.state.frame) == ("clear", 31)
    assert [each.kind for each in solution_path(SAMPLES["QD"], None)] == ["hidden", *["middle"] * 4, "clear"]


# -- the published split -----------------------------------------------------------------------------------------------
def split_states(folder, scenarios=NAMES, **changed):
    """Return the states of a split of 20 rows."""
    return load_split_states(write(folder, [row(**changed)] * 20), scenarios, None, 0)


def test_a_row_of_the_split_is_a_state_with_the_games_verdicts(tmp_path):
    state = split_states(tmp_path)[0]

    assert state.scenario == "QD" and state.job().request.messages[0].text.startswith("What is it? 0\nA. Add")
    assert split_states(tmp_path, ["COCO"]) == [], "a row of another scenario is left out"
    assert [picture.size for picture in state.job().pictures.values()] == [(8, 8)]
    for reply, reward, action in (
        ("Cat.", 1.0, Action.CATEGORY), ("C", 1.0, Action.CATEGORY), ("C. Cat.", 1.0, Action.CATEGORY),
        ("A", 0.5, Action.SUGGESTION), ("Add more details.", 0.5, Action.SUGGESTION),
        ("Dog.", 0.0, Action.CATEGORY), ("B", 0.0, Action.ABSTENTION), ("no idea", 0.0, Action.UNPARSABLE),
    ):  # fmt: skip
        assert (state.outcome(reply).reward(0.5), state.outcome(reply).action) == (reward, action), reply


def test_the_split_has_no_hints_and_only_pictures_that_open(tmp_path):
    state = split_states(tmp_path, images=[{"bytes": b"GIF8", "path": None}])[0]

    with pytest.raises(TrainError, match=r"set train.exploration.hint = 0"):
        state.job(hint=True)
    with pytest.raises(TrainError, match="row 0 of the train split has no picture that can be decoded"):
        state.job()
