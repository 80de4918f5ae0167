"""The pictures of a decision map: every one that play can reach, and of a long video every n-th around its ring."""

from dataclasses import replace

import pytest

from envs import SCENARIOS
from envs.types import Action, Turn, Verdict
from proactive_operating.frames import Moves, decision_states, reachable_states, read_category
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
    asked = {frames[picture]: frames[stands_in] for picture, stands_in in Moves.from_sample(video).stand_ins.items()}

    assert len(asked) == 65 and set(asked.values()) == set(range(0, 65, 3))
    distances = [min((a - b) % 65, (b - a) % 65) for a, b in asked.items()]
    assert max(distances) == 1 and all(asked[frame] == frame for frame in range(0, 65, 3))


MULTI_VIEW = SAMPLES["MVP-N"]


def test_a_reply_to_a_decision_map_is_read_against_the_categories_alone():
    state = SCENARIOS["ROD"].initial(SAMPLES["ROD"])
    read = [read_category(SAMPLES["ROD"], state, reply) for reply in ("C", "Banana.", "A", "E", "Move it to the left.")]

    assert [turn.category for turn in read] == [
        Verdict.CORRECT, Verdict.CORRECT, Verdict.WRONG, Verdict.MISMATCH, Verdict.MISMATCH,
    ]  # fmt: skip
    assert [turn.action for turn in read] == [Action.CATEGORY] * 3 + [Action.UNPARSABLE] * 2
    assert read[0] == Turn(7, "C", Verdict.MISMATCH, Verdict.CORRECT, Action.CATEGORY, None)


def test_views_of_an_object_are_a_chain_and_each_move_is_one_turn():
    game, moves = SCENARIOS["MVP-N"], Moves.from_sample(MULTI_VIEW)
    pictures = [game.image(MULTI_VIEW, state).key for state in reachable_states(MULTI_VIEW)]

    assert len(pictures) == 4 and list(moves.neighbors) == pictures
    assert [moves.neighbors[picture] for picture in pictures] == [(pictures[n],) for n in (1, 2, 3)] + [()]
    assert [moves.moves_to_known(picture, 0, {pictures[2]}) for picture in pictures] == [2, 1, 0, None]
    assert moves.knows(pictures[2], {pictures[2]}) and not moves.knows(pictures[1], {pictures[2]})
    assert not moves.knows("no picture", {pictures[2]}) and moves.moves_to_known("no picture", 0, pictures) is None


def test_a_first_picture_whose_category_does_not_count_is_known_a_move_later():
    """At ROD's first turn a category never counts: a model that knows the first picture moves away and back."""
    sample, game = SAMPLES["ROD"], SCENARIOS["ROD"]
    moves, first = Moves.from_sample(sample), game.image(sample, game.initial(sample)).key
    neighbor = moves.neighbors[first][0]

    assert not moves.counts(0) and moves.counts(1)
    assert moves.moves_to_known(first, 0, {first, neighbor}) == 1
    assert moves.moves_to_known(first, 0, {first}) == 2 and moves.moves_to_known(first, 1, {first}) == 0
    assert moves.moves_to_known(first, 0, set()) is None
    shortest = [moves.moves_to_known(first, 0, {picture}) for picture in moves.neighbors]
    assert sorted(shortest) == sorted([2, *(min(n, 14 - n) for n in range(1, 14))])
