"""COCO: the crop is a pure function of sample and counts, by the package's own order of float operations."""

from dataclasses import replace

import pytest

from envs import SCENARIOS
from envs.coco import crop_box
from envs.types import Mode, State
from tests.envs.games import ABSTENTION, SAMPLES

GAME, SAMPLE = SCENARIOS["COCO"], SAMPLES["COCO"]
LEFT, UP, FARTHER = "Move the camera to the left.", "Move the camera up.", "Move farther from the object."
RIGHT, DOWN = "Move the camera to the right.", "Move the camera down."


def facing_sample(direction, options=(LEFT, RIGHT, UP, DOWN, FARTHER, ABSTENTION), **extra):
    return replace(SAMPLE, options=options, extra={**SAMPLE.extra, "direction": direction, **extra})


@pytest.mark.parametrize(
    ("direction", "first", "third"),
    [
        ("left", (59.5, 60, 140.25, 110), (38.5, 60, 140.25, 110)),
        ("right", (70, 60, 150.75, 110), (70, 60, 171.75, 110)),
        ("up", (70, 53, 140.25, 110), (70, 32, 140.25, 110)),
        ("down", (70, 60, 140.25, 117), (70, 60, 140.25, 138)),
        ("up_left", (59.5, 53, 140.25, 110), (38.5, 32, 140.25, 110)),
        ("down_right", (70, 60, 150.75, 117), (70, 60, 171.75, 138)),
        ("zoom", (59.5, 53, 220.75, 177), (38.5, 32, 241.75, 198)),
    ],
)
def test_the_crop_grows_towards_its_direction(direction, first, third):
    extra = facing_sample(direction).extra

    assert crop_box(extra, 0, 0) == first
    assert crop_box(extra, 2, 3) == third
    assert all(isinstance(edge, float) for edge in crop_box(extra, 0, 0))


@pytest.mark.parametrize(
    ("direction", "across", "along", "removed"),
    [
        ("left", 0, 0, {UP, DOWN}),
        ("left", 3, 0, {LEFT, RIGHT, UP, DOWN}),
        ("right", 2, 0, {UP, DOWN}),
        ("right", 3, 0, {LEFT, RIGHT, UP, DOWN}),
        ("up", 0, 2, {LEFT, RIGHT}),
        ("up", 0, 3, {LEFT, RIGHT, UP, DOWN}),
        ("down", 0, 3, {LEFT, RIGHT, UP, DOWN}),
        ("down", 0, 0, {LEFT, RIGHT}),
        ("up_left", 2, 2, set()),
        ("up_left", 3, 2, {LEFT, RIGHT}),
        ("down_right", 2, 3, {UP, DOWN}),
        ("zoom", 3, 3, set()),
        ("zoom", 4, 4, {FARTHER}),
        ("zoom", 5, 5, set()),
    ],
)
def test_the_moves_of_an_axis_at_its_end_are_not_offered(direction, across, along, removed):
    sample, state = facing_sample(direction), State(0, across=across, along=along)

    assert set(sample.options) - set(GAME.offered(sample, state)) == removed
    assert GAME.offered(sample, state._replace(mode=Mode.RANDOM)) == sample.options


@pytest.mark.parametrize(("direction", "limit"), [("left", 4), ("down", 4), ("up_left", 8), ("zoom", 5)])
def test_the_limit_follows_from_direction_and_granularity(direction, limit):
    assert GAME.limit(facing_sample(direction)) == limit
