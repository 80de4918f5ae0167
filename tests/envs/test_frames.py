"""The pictures of a decision map: every one that play can reach, and of a long video every n-th around its ring."""

from dataclasses import replace

import pytest

from envs import SCENARIOS
from envs.frames import Moves, decision_states, reachable_states
from tests.envs.games import SAMPLES

VIDEO = SAMPLES["VSOD"]


@pytest.mark.parametrize(
    ("frames", "step", "pictures"), [(5, 1, 5), (32, 1, 32), (33, 2, 17), (64, 2, 32), (65, 3, 22)]
)
def test_a_long_video_is_thinned_to_at_most_32_pictures(frames, step, pictures):
    video = replace(VIDEO, frames=frames, first_frame=3, reference_frame=1)
    states = decision_states(video)

    offsets = [(state.frame - 3) % frames for state in states]
    assert len(states) == pictures and sorted(offsets) == list(range(0, frames, step))
    assert states[0].frame == 3, "the picture that an episode begins with is asked about first"


@pytest.mark.parametrize("scenario", sorted(SCENARIOS.keys() - {"VSOD"}))
def test_other_scenarios_ask_about_every_picture_once(scenario):
    sample, game = SAMPLES[scenario], SCENARIOS[scenario]
    pictures = [game.image(sample, state).key for state in decision_states(sample)]

    assert pictures == list(dict.fromkeys(game.image(sample, state).key for state in reachable_states(sample)))


def test_a_picture_left_out_is_answered_by_the_nearest_on_the_ring():
    video, game = replace(VIDEO, frames=65, first_frame=3, reference_frame=1), SCENARIOS["VSOD"]
    frames = {game.image(video, state).key: (state.frame - 3) % 65 for state in reachable_states(video)}
    asked = {frames[picture]: frames[stands_in] for picture, stands_in in Moves.from_sample(video).asked.items()}

    assert len(asked) == 65 and set(asked.values()) == set(range(0, 65, 3))
    distances = [min((a - b) % 65, (b - a) % 65) for a, b in asked.items()]
    assert max(distances) == 1 and all(asked[frame] == frame for frame in range(0, 65, 3))
