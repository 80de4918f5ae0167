"""The categories of the demo: ``categories.toml`` draws each, and its outline identifies it even at 64 x 64 pixels."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from proactive_demo.drawing import shapes
from proactive_demo.drawing.shapes import Color, Drawing, Patch, Point, mix, posed

TABLES = tomllib.loads(Path(__file__).with_name("categories.toml").read_text("utf-8"))
PALETTE: dict[str, Color] = {name: tuple(color) for name, color in TABLES["palette"].items()}
BRIGHT = tuple(PALETTE[name] for name in TABLES["bright"])


@dataclass(frozen=True, slots=True)
class Category:
    """One kind of object."""

    patches: list[list[Any]]
    """Shape, color and other arguments of each patch."""
    colors: list[Any]
    """Possible main colors."""
    lean: float = 20.0
    """Most degrees by which it may be turned either way and still be recognizable."""


CATEGORIES: dict[str, Category] = {
    name: Category(**{"colors": TABLES["bright"], **table}) for name, table in TABLES["categories"].items()
}


def drawing(name: str, rng: Random, turned: bool = True) -> Drawing:
    """Draw the category in random colors and a random pose, fitted to the unit square."""
    category = CATEGORIES[name]
    main = _color(rng.choice(category.colors), PALETTE)
    second = rng.choice([color for color in BRIGHT if color != main])
    shades = {"main": main, "dark": mix(main, (30, 20, 50), 0.35), "light": mix(main, (255, 255, 255), 0.5)}
    palette = {**PALETTE, **shades, "second": second}
    patches = [_patch(palette, *row) for row in category.patches]
    turn = rng.uniform(-category.lean, category.lean) if turned else 0.0
    mirror = -1 if rng.random() < 0.5 else 1
    return posed(patches, turn, mirror * rng.uniform(0.9, 1.1), rng.uniform(0.9, 1.1))


def _patch(palette: Mapping[str, Color], shape: str, color: Any, *values: Any) -> Patch:
    """Return a patch of the table."""
    arguments = [argument for value in values for argument in _arguments(value)]
    patch: Patch = getattr(shapes, shape)(_color(color, palette), *arguments)
    return patch


def _arguments(value: Any) -> Sequence[float | Point]:
    """Return a number, a point, or the points of an arc of the table, as arguments of a shape."""
    if not isinstance(value, list):
        return (value,)
    return shapes.arc(*value[1:]) if value[0] == "arc" else ((value[0], value[1]),)


def _color(value: Any, palette: Mapping[str, Color]) -> Color:
    """Return a color of the table: a name of the palette, or [red, green, blue]."""
    return palette[value] if isinstance(value, str) else (value[0], value[1], value[2])


def cycle_category(scenario: str, index: int, seed: int) -> str:
    """Return the category of one sample: each occurs once, in random order, before any repeats."""
    names = sorted(CATEGORIES)
    lap, position = divmod(index, len(names))
    Random(f"{seed}/demo/{scenario}/{lap}/categories").shuffle(names)
    return names[position]


def choices(answer: str, rng: Random) -> list[str]:
    """Return four different categories with a final dot, the answer among them."""
    others = rng.sample([name for name in sorted(CATEGORIES) if name != answer], 3)
    options = [f"{name}." for name in (answer, *others)]
    rng.shuffle(options)
    return options
