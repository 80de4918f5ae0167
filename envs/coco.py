"""COCO: the camera sees a crop that grows by a step per move, sideways, up or down, or on all sides (zoom).

The state counts moves; the crop is computed from the counts in the package's order of float operations, so that both give the
same box.
"""

from functools import lru_cache
from typing import Any

from envs.scenario import Scenario, suggestions
from envs.stimulus import PROMPTS
from envs.types import Crop, ImageRef, Mode, Move, Sample, State

ZOOM = "zoom"
SIDEWAYS = ("Move the camera to the left.", "Move the camera to the right.")
UPRIGHT = ("Move the camera up.", "Move the camera down.")
FARTHER = "Move farther from the object."
MOVES = {"left": Move.LEFT, "right": Move.RIGHT, "up": Move.UP, "down": Move.DOWN, ZOOM: Move.ZOOM}


@lru_cache(maxsize=65536)
def total_distance(step: float, moves: int) -> float:
    """Return the length of ``moves + 1`` steps, rounded as by the package, which repeats ``step / n * (n + 1)``."""
    for n in range(1, moves + 1):
        step = step / n * (n + 1)
    return step


class CameraMoves(Scenario):
    """Move the camera until the object is in the picture, then name it."""

    name = "COCO"
    stem = "coco2014"
    hint = PROMPTS["COCO_HINT"]
    zoom_hint = PROMPTS["COCO_ZOOM_HINT"]
    cue = {"to the left": Move.LEFT, "to the right": Move.RIGHT, "up": Move.UP, "down": Move.DOWN, "farther": Move.ZOOM}
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
        """Leave out the moves of an axis that has reached its end; for ``zoom`` the horizontal axis decides."""
        if state.mode is Mode.RANDOM:
            return sample.options
        exhausted = _exhausted_options(sample, state)
        return tuple(option for option in sample.options if option not in exhausted) if exhausted else sample.options

    def advance(self, sample: Sample, state: State, move: Move) -> State:
        across = state.across + (move in (Move.LEFT, Move.RIGHT, Move.ZOOM))
        along = state.along + (move in (Move.UP, Move.DOWN, Move.ZOOM))
        return state._replace(across=across, along=along)

    def telling(self, sample: Sample, state: State) -> bool:
        """Return True if no move would show more."""
        return state.mode is not Mode.PLAY or not suggestions(self.offered(sample, state))

    def problems(self, sample: Sample) -> list[str]:
        extra, reasons = sample.extra, []
        direction = extra.get("direction")
        granularity: Any = extra.get("granularity")
        if not isinstance(direction, str) or not any(word in direction for word in MOVES):
            return [f"direction {direction!r} names none of {', '.join(MOVES)}"]
        if type(granularity) not in (int, float) or granularity < 1 or granularity % 1:
            reasons.append(f"granularity {granularity!r} must be a whole number from 1 up")
        crop = extra.get("crop")
        edges = [crop.get(edge) for edge in ("top", "left", "height", "width")] if isinstance(crop, dict) else [None]
        numbers = [*edges, extra.get("horizontal_step"), extra.get("vertical_step")]
        if not all(type(number) in (int, float) for number in numbers):
            reasons.append("crop (top, left, height, width), horizontal_step and vertical_step must be numbers")
        return reasons


def crop_box(extra: Any, across: int, along: int) -> Crop:
    """Return left, top, right, bottom of the crop after the moves on each axis (package: ``_get_transform``).

    ``height`` and ``width`` of the entry are the bottom and right edges, but true sizes if the direction is only ``zoom``.
    """
    direction, crop = extra["direction"], extra["crop"]
    width, height = total_distance(extra["horizontal_step"], across), total_distance(extra["vertical_step"], along)
    zoom = ZOOM in direction
    top = crop["top"] - height if zoom or "up" in direction else crop["top"]
    left = crop["left"] - width if zoom or "left" in direction else crop["left"]
    bottom = crop["height"] + height if zoom or "down" in direction else crop["height"]
    right = crop["width"] + width if zoom or "right" in direction else crop["width"]
    if direction == ZOOM:
        bottom += crop["top"]
        right += crop["left"]
    return float(left), float(top), float(right), float(bottom)


def _exhausted_options(sample: Sample, state: State) -> tuple[str, ...]:
    extra = sample.extra
    direction, granularity = extra["direction"], extra["granularity"]
    x_step, y_step = extra["horizontal_step"], extra["vertical_step"]
    if direction == ZOOM:
        return (FARTHER,) if total_distance(x_step, state.across) == x_step * (granularity + 1) else ()
    moves = granularity + 1 if ZOOM in direction else granularity
    x_end = x_step * moves if any(word in direction for word in ("left", "right", ZOOM)) else 0
    y_end = y_step * moves if any(word in direction for word in ("up", "down", ZOOM)) else 0
    sideways = SIDEWAYS if total_distance(x_step, state.across) >= x_end else ()
    return sideways + (UPRIGHT if total_distance(y_step, state.along) >= y_end else ())
