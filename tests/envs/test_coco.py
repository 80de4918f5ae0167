"""COCO: the crop is a pure function of sample and counts, by the package's own order of float operations."""

from dataclasses import replace

import pytest

from envs import SCENARIOS, stimulus
from envs.coco import crop_box, total_distance
from envs.types import Mode, Move, State
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


def test_a_step_grows_by_the_packages_own_roundings():
    assert [total_distance(7, moves) for moves in range(4)] == [7, 14, 21, 28]
    assert total_distance(0.1, 2) == 0.1 / 1 * 2 / 2 * 3
    assert total_distance(4.3, 5) == ((((4.3 / 1 * 2) / 2 * 3) / 3 * 4) / 4 * 5) / 5 * 6


@pytest.mark.parametrize(
    ("move", "across", "along"),
    [(Move.LEFT, 3, 5), (Move.RIGHT, 3, 5), (Move.UP, 2, 6), (Move.DOWN, 2, 6), (Move.ZOOM, 3, 6)],
)
def test_a_move_counts_on_its_axis(move, across, along):
    after = GAME.advance(SAMPLE, State(0, 1, across=2, along=5), move)
    assert (after.across, after.along) == (across, along)


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


@pytest.mark.parametrize(
    ("direction", "moves"),
    [("left", ["left"]), ("up_right", ["right", "up"]), ("down_left", ["left", "down"]), ("zoom", ["zoom"])],
)
def test_random_proactive_moves_are_those_of_the_direction(direction, moves):
    assert list(GAME.moves(facing_sample(direction))) == moves


def test_the_hint_and_the_picture():
    assert (
        GAME.hint_for(facing_sample("zoom")) == stimulus.COCO_ZOOM_HINT != stimulus.COCO_HINT == GAME.hint_for(SAMPLE)
    )
    assert GAME.path(SAMPLE, State(3)) == SAMPLE.image
    assert GAME.image(SAMPLE, State(0, across=2, along=3)).crop == crop_box(SAMPLE.extra, 2, 3)
    assert [GAME.move(text) for text in (LEFT, RIGHT, UP, DOWN, FARTHER)] == ["left", "right", "up", "down", "zoom"]


def test_a_view_tells_when_nothing_is_left_to_ask():
    diagonal = facing_sample("up_left", (LEFT, UP, ABSTENTION))

    assert not GAME.telling(diagonal, State(0, across=3, along=2))
    assert GAME.telling(diagonal, State(0, across=3, along=3))
    assert GAME.telling(diagonal, State(0, mode=Mode.REFERENCE))
    assert GAME.telling(diagonal, State(0, mode=Mode.RANDOM))


NUMBERS = "crop (top, left, height, width), horizontal_step and vertical_step must be numbers"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"direction": "sideways"}, "direction 'sideways' names none of left, right, up, down, zoom"),
        ({"granularity": 0}, "granularity 0 must be a whole number from 1 up"),
        ({"granularity": True}, "granularity True must be a whole number from 1 up"),
        ({"granularity": 2.5}, "granularity 2.5 must be a whole number from 1 up"),
        ({"horizontal_step": "1"}, NUMBERS), ({"vertical_step": None}, NUMBERS), ({"vertical_step": True}, NUMBERS),
        ({"crop": [1, 2, 3, 4]}, NUMBERS), ({"crop": {"top": 1, "left": 2, "height": 3}}, NUMBERS),
        ({"crop": {"top": 1, "left": 2, "width": 3}}, NUMBERS), ({"crop": {"top": 1, "height": 2, "width": 3}}, NUMBERS),
        ({"crop": {"left": 1, "height": 2, "width": 3}}, NUMBERS),
    ],
)  # fmt: skip
def test_malformed_entry_is_reported_in_one_sentence(changes, problem):
    assert GAME.problems(facing_sample(**{"direction": "left", **changes})) == [problem]


@pytest.mark.parametrize(
    "direction", ["left", "right", "up", "down", "up_left", "up_right", "down_left", "down_right", "zoom"]
)
def test_every_direction_may_be_played(direction):
    assert GAME.problems(facing_sample(direction, granularity=1)) == []


@pytest.mark.parametrize(("direction", "last"), [("left", 3), ("zoom_left", 4), ("zoom", 4)])
def test_moves_end_after_the_steps_of_the_crop_and_one_more_with_zoom(direction, last):
    """Granularity 4: the first crop is a step wide already, and a zoom lasts a step longer."""
    sample = facing_sample(direction, options=(LEFT, FARTHER, ABSTENTION))
    move = FARTHER if direction == "zoom" else LEFT

    for across in range(last + 1):
        assert (move in GAME.offered(sample, State(0, across=across))) == (across < last), across
