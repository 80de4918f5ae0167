"""COCO: the camera sees a crop that grows by a step per move, sideways, up or down, or on all sides (zoom).

The state counts moves; the crop is computed from the counts by the package's own order of float operations, so that
boxes agree to the last bit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from envs import stimulus
from envs.scenario import Scenario, suggestions
from envs.types import Crop, ImageRef, Mode, Move, Sample, State

ZOOM = "zoom"
SIDEWAYS = ("Move the camera to the left.", "Move the camera to the right.")
UPRIGHT = ("Move the camera up.", "Move the camera down.")
FARTHER = "Move farther from the object."
MOVES = {"left": Move.LEFT, "right": Move.RIGHT, "up": Move.UP, "down": Move.DOWN, ZOOM: Move.ZOOM}


@lru_cache(maxsize=65536)
def total_distance(step: float, moves: int) -> float:
    """The distance after ``moves`` further moves: ``step / n * (n + 1)`` again and again, rounding included."""
    for n in range(1, moves + 1):
        step = step / n * (n + 1)
    return step


class CameraMoves(Scenario):
    """Move the camera until the object is in the picture, then name it."""

    name = "COCO"
    stem = "coco2014"
    hint = stimulus.COCO_HINT
    zoom_hint = stimulus.COCO_ZOOM_HINT
    cue = {
        "to the left": Move.LEFT,
        "to the right": Move.RIGHT,
        "up": Move.UP,
        "down": Move.DOWN,
        "farther": Move.ZOOM,
    }
    placeholders = ()
    history_edge = None

    def hint_for(self, sample: Sample) -> str:
        return self.zoom_hint if ZOOM in sample.extra["direction"] else self.hint

    def moves(self, sample: Sample) -> tuple[Move, ...]:
        direction = sample.extra["direction"]
        return (Move.ZOOM,) if ZOOM in direction else tuple(move for word, move in MOVES.items() if word in direction)

    def limit(self, sample: Sample) -> int:
        direction, granularity = sample.extra["direction"], sample.extra["granularity"]
        if ZOOM in direction:
            return int(granularity) + 1
        return int(granularity) * (2 if "_" in direction else 1)

    def path(self, sample: Sample, state: State) -> str:
        return sample.image

    def image(self, sample: Sample, state: State) -> ImageRef:
        return ImageRef(sample.image, crop=crop_box(sample.extra, state.across, state.along))

    def offered(self, sample: Sample, state: State) -> tuple[str, ...]:
        """Without the moves of an axis that has reached its end; in zoom the horizontal axis decides."""
        if state.mode is Mode.RANDOM:
            return sample.options
        spent = _spent(sample, state)
        return tuple(option for option in sample.options if option not in spent) if spent else sample.options

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        across = state.across + (move in (Move.LEFT, Move.RIGHT, Move.ZOOM))
        along = state.along + (move in (Move.UP, Move.DOWN, Move.ZOOM))
        return state._replace(across=across, along=along)

    def telling(self, sample: Sample, state: State) -> bool:
        """Return True if there is no move left that would show more."""
        return state.mode is not Mode.PLAY or not suggestions(self.offered(sample, state))

    def problems(self, sample: Sample) -> list[str]:
        extra, found = sample.extra, []
        direction, granularity = extra.get("direction"), extra.get("granularity")
        if not isinstance(direction, str) or not any(word in direction for word in MOVES):
            return [f"direction {direction!r} names none of {', '.join(MOVES)}"]
        if (
            not isinstance(granularity, int | float)
            or isinstance(granularity, bool)
            or not 1 <= granularity == granularity // 1
        ):
            found.append(f"granularity {granularity!r} must be a whole number from 1 up")
        crop = extra.get("crop")
        edges = [crop.get(edge) for edge in ("top", "left", "height", "width")] if isinstance(crop, dict) else [None]
        numbers = [*edges, extra.get("horizontal_step"), extra.get("vertical_step")]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            found.append("crop (top, left, height, width), horizontal_step and vertical_step must be numbers")
        return found


def crop_box(extra: Any, across: int, along: int) -> Crop:
    """left, top, right, bottom of the crop after so many moves on each axis (package: ``_get_transform``).

    ``height`` and ``width`` of the entry are the bottom and right edges, but true sizes where the direction is just ``zoom``.
    """
    direction, crop = extra["direction"], extra["crop"]
    wide, high = total_distance(extra["horizontal_step"], across), total_distance(extra["vertical_step"], along)
    zoom = ZOOM in direction
    top = crop["top"] - high if zoom or "up" in direction else crop["top"]
    left = crop["left"] - wide if zoom or "left" in direction else crop["left"]
    bottom = crop["height"] + high if zoom or "down" in direction else crop["height"]
    right = crop["width"] + wide if zoom or "right" in direction else crop["width"]
    if direction == ZOOM:
        bottom += crop["top"]
        right += crop["left"]
    return float(left), float(top), float(right), float(bottom)


def _spent(sample: Sample, state: State) -> tuple[str, ...]:
    extra = sample.extra
    direction, granularity = extra["direction"], extra["granularity"]
    wide, high = extra["horizontal_step"], extra["vertical_step"]
    if direction == ZOOM:
        return (FARTHER,) if total_distance(wide, state.across) == wide * (granularity + 1) else ()
    moves = granularity + 1 if ZOOM in direction else granularity
    furthest_wide = wide * moves if any(word in direction for word in ("left", "right", ZOOM)) else 0
    furthest_high = high * moves if any(word in direction for word in ("up", "down", ZOOM)) else 0
    spent: tuple[str, ...] = ()
    if total_distance(wide, state.across) >= furthest_wide:
        spent += SIDEWAYS
    if total_distance(high, state.along) >= furthest_high:
        spent += UPRIGHT
    return spent
