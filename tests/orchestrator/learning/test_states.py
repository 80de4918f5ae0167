"""States come from the path of a correct player, rewards from the game's verdict, and no state from a test sample."""

import shutil
from collections import Counter
from dataclasses import replace
from hashlib import blake2b
from random import Random

import pytest
from PIL import Image

from envs import SCENARIOS
from envs.render import Renderer
from envs.types import Action
from orchestrator.learning.settings import States, TrainError
from orchestrator.learning.states import Pool, fingerprint, load_states, refuse_test_pictures, solution_path
from proactive_demo.drawing import draw
from sweeps.load import build
from tests.envs.games import SAMPLES

NAMES = ("QD", "COCO")


@pytest.fixture(scope="module")
def states(demo_data):
    return load_states(demo_data, tuple(SCENARIOS), None, 0)


def sweep(folder):
    return build({"data": str(folder), "models": ["embedded"]}, "x.toml")


def test_each_sample_has_one_hidden_and_one_clear_state(states):
    kinds = Counter((state.scenario, state.sample.id, state.kind) for state in states)

    for scenario, number in {(state.scenario, state.sample.id) for state in states}:
        assert kinds[scenario, number, "hidden"] == kinds[scenario, number, "clear"] == 1
    assert len({state.key for state in states}) == len(states)


def test_rewards_are_the_games_verdict(states):
    for state in states:
        asks = SCENARIOS[state.scenario].askable(state.sample, state.state)
        wrong = next(c for c in state.sample.categories if c != state.sample.answer)
        assert state.outcome(state.solution).reward(0.25) == (1.0 if state.kind == "clear" else 0.25)
        assert state.outcome(wrong).reward(0.25) == state.outcome("what?").reward(0.25) == 0.0
        for ask in asks:
            assert state.outcome(ask).is_suggestion and state.outcome(ask).action is Action.SUGGESTION
        if SCENARIOS[state.scenario].answerable(state.sample, state.state):
            assert state.outcome(state.sample.answer).reward(0.25) == 1.0


def test_a_hidden_state_of_rod_rewards_no_category(states):
    hidden = next(state for state in states if state.scenario == "ROD" and state.kind == "hidden")

    assert hidden.outcome(hidden.sample.answer).reward(1.0) == 0.0


def test_question_matches_sweep_and_hint_changes_it(states):
    state = states[0]
    plain, hinted = state.job(), state.job(hint=True)

    assert "Hint:" in hinted.request.messages[0].text and "Hint:" not in plain.request.messages[0].text
    assert list(plain.pictures) == list(plain.request.messages[0].images)


def test_states_are_drawn_by_weight_and_seed(states):
    pool = Pool([s for s in states if s.scenario in NAMES], States(hidden=3, middle=0, clear=1))
    batch = pool.draw(400, Random(1))
    kinds = Counter(state.kind for state in batch)

    assert kinds["middle"] == 0 and 270 < kinds["hidden"] < 330
    assert (
        [s.key for s in batch]
        == [s.key for s in pool.draw(400, Random(1))]
        != [s.key for s in pool.draw(400, Random(2))]
    )
    assert Counter(state.scenario for state in batch) == dict.fromkeys(NAMES, 200)


def test_missing_state_kind_is_refused(states):
    only = [state for state in states if state.scenario == "QD" and state.kind == "hidden"]

    with pytest.raises(TrainError, match=r"QD has no state of the kinds that train.states draws"):
        Pool(only, States(hidden=0, middle=1, clear=0)).draw(1, Random(0))


def test_test_samples_are_refused_by_their_pictures(demo_data, tmp_path):
    draw(tmp_path / "other", 8, 77, NAMES)
    others = load_states(tmp_path / "other", NAMES, None, 0)
    refuse_test_pictures(others, NAMES, sweep(demo_data), "other")
    benchmark_states = load_states(demo_data, NAMES, None, 0)

    with pytest.raises(TrainError, match=r"mine shows pictures that .* is scored on .* and 19 more"):
        refuse_test_pictures(benchmark_states, NAMES, sweep(demo_data), "mine")


def test_a_renamed_test_picture_is_found_too(demo_data, tmp_path):
    draw(tmp_path / "other", 8, 77, NAMES)
    clear = next(s for s in load_states(demo_data, ("COCO",), None, 0) if s.kind == "clear")
    target = next(s for s in load_states(tmp_path / "other", ("COCO",), None, 0) if s.kind == "clear")
    line = (demo_data / "coco2014_preprocessed.jsonl").read_text().splitlines()
    stolen = next(text for text in line if f'"id": {clear.sample.id},' in text)
    shutil.copy(demo_data / clear.sample.image, tmp_path / "other" / target.sample.image)
    (tmp_path / "other/coco2014_preprocessed.jsonl").write_text(
        stolen.replace(clear.sample.image, target.sample.image) + "\n"
    )

    with pytest.raises(TrainError, match=r"name a folder without test samples as train.data"):
        refuse_test_pictures(load_states(tmp_path / "other", NAMES, None, 0), NAMES, sweep(demo_data), "other")


def test_remote_data_are_refused():
    with pytest.raises(TrainError, match=r"hf://a/b must be a local folder"):
        refuse_test_pictures([], NAMES, sweep("hf://a/b"), "mine")


def test_missing_picture_is_reported(states, tmp_path):
    with pytest.raises(TrainError, match=r"cannot be shown: .* is not there; `proactive-sweep data check`"):
        replace(states[0], renderer=Renderer(tmp_path)).job()


def test_a_sample_that_shows_its_answer_at_once_has_one_clear_state():
    sample = replace(SAMPLES["CIT"], first_frame=31)
    (state,) = solution_path(sample, None)

    assert (state.kind, state.state.frame) == ("clear", 31)
    assert [each.kind for each in solution_path(SAMPLES["QD"], None)] == ["hidden", *["middle"] * 4, "clear"]
    assert [each.state.frame for each in solution_path(SAMPLES["QD"], None)] == [0, 1, 2, 3, 4, 5]


def test_a_fingerprint_is_of_size_and_colors():
    picture = Image.new("RGB", (2, 1), (1, 2, 3))

    assert fingerprint(picture) == blake2b(b"(2, 1)" + bytes([1, 2, 3] * 2), digest_size=16).digest()
    assert fingerprint(picture.convert("RGBA")) == fingerprint(picture) != fingerprint(picture.resize((1, 2)))
