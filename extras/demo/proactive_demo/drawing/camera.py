"""COCO: a crop grows in one of nine directions, stays inside the picture, and finally shows the object."""

from dataclasses import dataclass
from random import Random
from typing import Any

from PIL import Image

from proactive_demo.drawing.categories import cycle_category, drawing
from proactive_demo.drawing.entries import STEMS, Box, DemoQuestion, DemoSample, entry, published_id, purpose_rng
from proactive_demo.drawing.painting import paint, place_sprite
from proactive_demo.drawing.scenes import backdrop

WIDTH, HEIGHT = 400, 300
DIRECTIONS = ("left", "right", "up", "down", "up_left", "up_right", "down_left", "down_right", "zoom")
MOVES = {
    "left": "Move the camera to the left.",
    "right": "Move the camera to the right.",
    "up": "Move the camera up.",
    "down": "Move the camera down.",
    "zoom": "Move farther from the object.",
}
PROMPTS = ("What is in the image?", "Which object is in this scene?", "What type of object is in the image?")


@dataclass(frozen=True, slots=True)
class CropAxis:
    """One axis of a crop before any step, in multiples of half a pixel, so that float operations round nothing."""

    low: float
    high: float
    step: float


def camera(index: int, seed: int) -> DemoSample:
    """Draw one sample; directions take turns."""
    rng = purpose_rng("COCO", index, seed, "picture")
    name = cycle_category("COCO", index, seed)
    direction = DIRECTIONS[(index + index // len(DIRECTIONS)) % len(DIRECTIONS)]
    size, granularity = rng.randint(96, 120), rng.randint(5, 6) if direction == "zoom" else rng.randint(3, 5)
    left, across = _place_object(_growth(direction, "left", "right"), WIDTH, size, granularity, rng)
    top, down = _place_object(_growth(direction, "up", "down"), HEIGHT, size, granularity, rng)
    number = published_id("COCO", index)
    path = f"{STEMS['COCO']}/val2014/COCO_val2014_{number:012d}.jpg"
    question = DemoQuestion(rng.choice(PROMPTS), tuple(MOVES[way] for way in direction.split("_")), name)
    crop = _crop_fields(direction, across, down)
    line = entry(number, path, 0, 1, 0, question, rng, direction=direction, granularity=granularity, **crop)
    sprite, ground = paint(drawing(name, rng), size), backdrop(rng, (WIDTH, HEIGHT))

    def picture(_: None) -> Image.Image:
        return place_sprite(ground, sprite, (left, top))

    paths = {path: None}
    x0, y0, x1, y1 = sprite.getbbox() or (0, 0, size, size)
    box: Box = (left + x0, top + y0, left + x1, top + y1)
    return DemoSample("COCO", line, paths, picture, lambda _: 1.0, box)


def _growth(direction: str, back: str, forth: str) -> str:
    """Return how the crop grows along one axis: back, forth, both ways (zoom), or not at all."""
    if direction == "zoom":
        return "both"
    return "back" if back in direction else "forth" if forth in direction else "rest"


def _place_object(way: str, length: int, size: int, moves: int, rng: Random) -> tuple[int, CropAxis]:
    """Return the object's position on an axis of ``length`` pixels, and the first crop, which never shows all of it."""
    if way == "both":
        start = rng.randint(length // 2 - size // 2 - 20, length // 2 - size // 2 + 20)
        middle, core = start + size // 2 + rng.randint(-size // 7, size // 7), rng.randint(4, 6)
        step = _halves((0.65 * size + 10) / (moves + 1))
        return start, CropAxis(middle - core, middle + core, step)
    if way == "rest":
        start = rng.randint(40, length - size - 40)
        return start, CropAxis(start - rng.randint(10, 35), start + size + rng.randint(10, 35), 0.0)
    start, view = rng.randint(4, 14), rng.randint(70, 90)
    step = _halves((size + rng.randint(8, 24)) / (moves - 1))
    low = max(start + size + step - rng.randint(0, 6), step * moves + 0.5)
    span = CropAxis(low, min(length, low + view), step)
    if way == "back":
        return start, span
    return length - start - size, CropAxis(length - span.high, length - span.low, step)


def _halves(value: float) -> float:
    return int(value * 2) / 2


def _crop_fields(direction: str, across: CropAxis, down: CropAxis) -> dict[str, Any]:
    """Return the published fields; height and width are sizes for zoom and the lower and right edges otherwise."""
    zoom = direction == "zoom"
    return {
        "horizontal_step": across.step,
        "vertical_step": down.step,
        "crop": {
            "top": down.low,
            "left": across.low,
            "height": down.high - down.low if zoom else down.high,
            "width": across.high - across.low if zoom else across.high,
        },
    }
