"""COCO: the crop is a pure function of sample and counts, by the package's own order of float operations."""

from dataclasses import replace

import pytest

from envs import SCENARIOS
from envs.coco import crop_box
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
