"""ChangeIt: a move that would leave the video is not offered, and random-proactive leaves it."""

from dataclasses import replace

import pytest

from envs import SCENARIOS
from envs.types import Ending, Mode, Move, State
from tests.envs.games import ABSTENTION, SAMPLES

GAME, SAMPLE = SCENARIOS["CIT"], SAMPLES["CIT"]
REWIND, WAIT, _ = SAMPLE.options


@pytest.mark.parametrize(
    ("frame", "offered"),
    [
        (4, (WAIT, ABSTENTION)), (5, SAMPLE.options), (20, SAMPLE.options), (34, SAMPLE.options),
        (35, (REWIND, ABSTENTION)), (39, (REWIND, ABSTENTION)),
    ],
)  # fmt: skip
def test_a_move_that_would_leave_the_video_is_not_offered(frame, offered):
    assert GAME.offered(SAMPLE, State(frame)) == offered
    assert GAME.offered(SAMPLE, State(frame, mode=Mode.RANDOM)) == SAMPLE.options


def test_only_first_option_goes_and_short_videos_lose_rewinding():
    twice = replace(SAMPLE, options=(WAIT, ABSTENTION, REWIND, WAIT))
    short = replace(SAMPLE, frames=4)

    assert GAME.offered(twice, State(39)) == (ABSTENTION, REWIND, WAIT)
    assert GAME.offered(short, State(2)) == (WAIT, ABSTENTION)
    assert GAME.offered(replace(SAMPLE, options=(WAIT, "Rewind it.")), State(0)) == (WAIT, "Rewind it.")


@pytest.mark.parametrize(
    ("frame", "move", "frame_after", "ending"),
    [
        (5, Move.REWIND, 0, None), (4, Move.REWIND, 4, Ending.WRONG),
        (34, Move.WAIT, 39, None), (35, Move.WAIT, 35, Ending.WRONG),
    ],
)  # fmt: skip
def test_leaving_the_video_ends_the_episode(frame, move, frame_after, ending):
    after = GAME.advance(SAMPLE, State(frame), move)
    assert (after.frame, after.ending) == (frame_after, ending)


@pytest.mark.parametrize(
    ("frame", "step", "telling"), [(31, 5, True), (29, 5, True), (33, 4, True), (28, 5, False), (34, 5, False)]
)
def test_a_view_tells_within_half_a_step_of_the_reference(frame, step, telling):
    sample = replace(SAMPLE, extra={**SAMPLE.extra, "step_size": step})
    assert GAME.telling(sample, State(frame)) is telling
    assert GAME.telling(sample, State(frame, mode=Mode.REFERENCE))


def test_an_example_goes_towards_the_reference():
    asks = (REWIND, WAIT)
    assert [GAME.towards(SAMPLE, State(frame), asks) for frame in (30, 31, 32)] == [WAIT, WAIT, REWIND]
    assert GAME.towards(SAMPLE, State(39), (WAIT,)) == WAIT
    assert GAME.limit(SAMPLE) == 9


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "2", None])
@pytest.mark.parametrize("name", ["step_size", "max_steps"])
def test_steps_are_whole_numbers_above_zero(name, value):
    bad = replace(SAMPLE, extra={**SAMPLE.extra, name: value})
    assert GAME.problems(bad) == [f"{name} must be a whole number above 0"]
    assert GAME.problems(replace(SAMPLE, extra={**SAMPLE.extra, name: 1})) == []


@pytest.mark.parametrize("options", [(REWIND, ABSTENTION), (WAIT, ABSTENTION), ("rewind the video.", WAIT)])
def test_both_moves_must_be_among_the_options(options):
    problem = "options must hold 'Rewind the video.' and one that says 'Wait for the'"
    assert GAME.problems(replace(SAMPLE, options=options)) == [problem]
