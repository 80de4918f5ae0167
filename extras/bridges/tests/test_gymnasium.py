"""A recorded episode replays through the Gymnasium environment to the same pictures, questions, transitions and ending."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="the extra gymnasium is not installed")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from replayed import CONDITIONS, record_episodes  # noqa: E402

from envs import SCENARIOS  # noqa: E402
from envs.render import Renderer, UnreadablePicture  # noqa: E402
from envs.samples import BadData  # noqa: E402
from proactive_bridges.benchmark import Benchmark  # noqa: E402
from proactive_bridges.gymnasium_env import ProactiveGymEnv  # noqa: E402
from sweeps.sweep_file import SweepError  # noqa: E402


@pytest.fixture(scope="module")
def recorded_episodes(demo_data, tmp_path_factory):
    return record_episodes(demo_data, tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_recorded_episodes_replay_to_the_same_transitions(demo_data, recorded_episodes, condition):
    by_text = ProactiveGymEnv(demo_data, condition=condition, action="text", size=8)
    by_option = ProactiveGymEnv(demo_data, condition=condition, size=8)
    matching = [candidate for candidate in recorded_episodes if candidate.condition == condition]
    endings, chosen = set(), 0
    for episode in matching:
        for env in (by_text, by_option):
            observed, info = env.reset(options={"scenario": episode.scenario, "sample": episode.sample})
            for turn in episode.turns:
                assert (info["turn"], info["frame"], info["image"]) == (turn["turn"], turn["frame"], turn["image"])
                assert info["conversation"] == [
                    {"role": m.role, "text": m.text, "images": [image.key for image in m.images]} for m in turn["sent"]
                ]
                assert observed["text"] == turn["sent"][-1].text and env.observation_space.contains(observed)
                choices = [*info["options"], *info["categories"]]
                option = choices.index(turn["reply"]) if turn["reply"] in choices else len(choices)
                chosen += option < len(choices)
                observed, reward, terminated, truncated, info = env.step(option if env is by_option else turn["reply"])
                transition = (info["option"], info["category"], info["action"], info["move"] or None)
                assert transition == (turn["option"], turn["category"], turn["action"], turn["move"])
                last = turn is episode.turns[-1]
                assert info["ending"] == (episode.ending if last else "") and (terminated or truncated) == last
            assert (reward, truncated) == (float(episode.ending == "correct"), episode.ending == "limit")
            endings.add(episode.ending)
    assert len(matching) == 5 * 70 and chosen > 400
    assert endings == ({"correct", "wrong"} if condition == "reference" else {"correct", "wrong", "limit"})


@pytest.mark.parametrize("action", ["option", "text"])
@pytest.mark.parametrize("name", ["all", "ROD", "VSOD"])
def test_gymnasiums_own_check_passes_without_a_warning(demo_data, name, action):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(f"proactive-sweep/{name}-v0", data=demo_data, action=action, size=64)
        check_env(env.unwrapped)
    env.reset(seed=3)
    assert env.unwrapped.episode.sample.scenario in (SCENARIOS if name == "all" else [name])


def test_picture_is_scaled_to_fit_and_rendered_in_full(demo_data):
    env = ProactiveGymEnv(demo_data, ["COCO"], size=50, render_mode="rgb_array")
    observed, _ = env.reset(seed=1)
    full_picture = np.asarray(Renderer(demo_data).picture(env.episode.image))
    assert np.array_equal(env.render(), full_picture)
    height, width = (max(1, round(edge * 50 / max(full_picture.shape[:2]))) for edge in full_picture.shape[:2])
    assert observed["picture"].shape == (50, 50, 3) and max(height, width) == 50
    assert not observed["picture"][height:].any() and not observed["picture"][:, width:].any()
    assert observed["picture"][:height, :width].any()
    blind, _ = ProactiveGymEnv(demo_data, ["COCO"], "text-only", size=50).reset(seed=1)
    assert not blind["picture"].any() and blind["text"] == observed["text"]


def test_mask_covers_shown_options_and_other_actions_name_nothing(demo_data):
    env = ProactiveGymEnv(demo_data, "all", "reference", size=16)
    for seed in range(8):
        _, info = env.reset(seed=seed)
        assert info["options"] == [] and info["action_mask"].sum() == len(info["categories"]) < env.action_space.n
        _, reward, terminated, _, info = env.step(env.action_space.n - 1)
        assert (reward, terminated, info["action"], info["ending"]) == (0.0, True, "unparsable", "wrong")


def test_the_same_seed_shows_the_same_samples_and_another_seed_others(demo_data):
    env = ProactiveGymEnv(demo_data, size=16)

    def draw_samples(seed):
        infos = [env.reset(seed=seed)[1], *(env.reset()[1] for _ in range(9))]
        return [(info["scenario"], info["sample"]) for info in infos]

    assert draw_samples(1) == draw_samples(1) != draw_samples(2) and len(set(draw_samples(1))) > 5


def test_mistakes_are_one_sentence(demo_data, tmp_path):
    env = ProactiveGymEnv(demo_data, ["ROD", "QD"], action="text", size=16)
    for options, sentence in (
        ({"sample": 3}, "reset has a sample and no scenario"),
        ({"scenario": "COCO"}, "scenario 'COCO' is not loaded; choose from ROD, QD"),
        ({"scenario": "ROD", "sample": 10**6}, "ROD has no sample with id 1000000"),
        ({"id": 3}, "reset knows no option 'id'"),
    ):
        with pytest.raises((SweepError, ValueError), match=sentence):
            env.reset(options=options)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="an action is a text here, not 3"):
        env.step(3)
    env.step("nothing")
    with pytest.raises(ValueError, match="has ended"):
        env.step("nothing")
    with pytest.raises(SweepError, match="every-frame asks about every picture and is no game"):
        Benchmark(demo_data, ["ROD"], "every-frame")
    with pytest.raises(BadData, match="is not there"):
        ProactiveGymEnv(tmp_path)


def test_a_file_that_is_no_picture_says_so(demo_data, tmp_path):
    shutil.copytree(demo_data, tmp_path / "data")
    env = ProactiveGymEnv(tmp_path / "data", ["QD"], size=16)
    _, info = env.reset(seed=0)
    (tmp_path / "data" / info["image"]).write_bytes(b"no picture")
    with pytest.raises(UnreadablePicture, match="is no picture"):
        ProactiveGymEnv(tmp_path / "data", ["QD"], size=16).reset(seed=0)


def test_gymnasium_finds_it_by_the_module_and_the_name(demo_data):
    env = gymnasium.make("proactive_bridges.gymnasium_env:proactive-sweep/QD-v0", data=str(demo_data), size=16)
    assert env.reset(seed=0)[1]["scenario"] == "QD" and env.spec.id == "proactive-sweep/QD-v0"


def test_options_seeds_and_the_filter_are_those_of_a_sweep(demo_data):
    env = ProactiveGymEnv(demo_data, ["VSOD"], "random-proactive", size=16)
    sample = next(iter(env.benchmark.samples_of("VSOD")))
    shown = {
        seed: ProactiveGymEnv(demo_data, ["VSOD"], "random-proactive", size=16, benchmark_seed=seed).reset(
            options={"sample": sample}
        )[1]
        for seed in (0, 1)
    }

    _, info = env.reset(options={"sample": sample})
    assert (info["scenario"], info["sample"]) == ("VSOD", sample) and info["options"] == shown[0]["options"]
    assert shown[0]["options"] != shown[1]["options"]
    sizes = [
        len(ProactiveGymEnv(demo_data, ["VSOD"], size=8, filtered=choice).benchmark.samples_of("VSOD"))
        for choice in (True, False)
    ]
    assert len(env.benchmark.samples_of("VSOD")) == sizes[0] <= sizes[1]
