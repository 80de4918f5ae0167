"""The categories of the demo: one function draws each, and its outline identifies it even at 64 x 64 pixels."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from proactive_demo.drawing import creatures, things
from proactive_demo.drawing.shapes import Color, Drawing, Pose, Tints, posed, tints

RED, ORANGE, YELLOW, GREEN = (214, 62, 62), (238, 132, 50), (246, 204, 66), (74, 156, 92)
TEAL, BLUE, PURPLE, PINK, BROWN = (40, 160, 160), (62, 110, 200), (136, 84, 176), (234, 116, 156), (150, 100, 62)
BRIGHT = (RED, ORANGE, YELLOW, GREEN, TEAL, BLUE, PURPLE, PINK)


@dataclass(frozen=True, slots=True)
class Category:
    """One kind of object."""

    draw: Callable[[Tints], Drawing]
    colors: tuple[Color, ...] = BRIGHT
    """Possible main colors."""
    lean: float = 20.0
    """Most degrees by which it may be turned either way and still be recognizable."""


CATEGORIES: dict[str, Category] = {
    "Anchor": Category(things.anchor, ((70, 84, 110), BLUE, RED)),
    "Apple": Category(creatures.apple, (RED, GREEN, YELLOW)),
    "Balloon": Category(things.balloon, lean=12),
    "Banana": Category(creatures.banana, (YELLOW, (236, 214, 96), (186, 200, 80)), lean=60),
    "Bicycle": Category(things.bicycle, lean=14),
    "Butterfly": Category(creatures.butterfly, lean=45),
    "Cactus": Category(creatures.cactus, (GREEN, (50, 130, 90), (120, 166, 70)), lean=10),
    "Car": Category(things.car, lean=12),
    "Cat": Category(creatures.cat, (ORANGE, (120, 116, 126), (226, 196, 150), BROWN), lean=18),
    "Chair": Category(things.chair, lean=10),
    "Crown": Category(things.crown),
    "Duck": Category(creatures.duck, (YELLOW, (240, 240, 232), (172, 140, 100)), lean=15),
    "Fish": Category(creatures.fish, lean=30),
    "Flower": Category(creatures.flower, (RED, PINK, PURPLE, BLUE, ORANGE), lean=15),
    "Glasses": Category(things.glasses),
    "Guitar": Category(things.guitar, (BROWN, RED, ORANGE, BLUE, TEAL), lean=60),
    "Hammer": Category(things.hammer, lean=60),
    "House": Category(things.house, lean=8),
    "Ice cream": Category(things.ice_cream, (PINK, TEAL, BROWN, YELLOW)),
    "Key": Category(things.key, ((226, 176, 60), (168, 176, 188), (190, 120, 70)), lean=60),
    "Ladder": Category(things.ladder, (BROWN, RED, BLUE, (170, 176, 186)), lean=25),
    "Lamp": Category(things.lamp, lean=10),
    "Mug": Category(things.mug, lean=12),
    "Mushroom": Category(creatures.mushroom, (RED, BROWN, ORANGE), lean=15),
    "Rocket": Category(things.rocket, (RED, BLUE, ORANGE, PURPLE), lean=45),
    "Sailboat": Category(things.sailboat, lean=12),
    "Scissors": Category(things.scissors, lean=60),
    "Snail": Category(creatures.snail, lean=12),
    "Star": Category(creatures.star, (YELLOW, ORANGE, PINK, TEAL), lean=30),
    "Teapot": Category(things.teapot, lean=12),
    "Tree": Category(creatures.tree, (GREEN, (46, 120, 84), (104, 150, 60)), lean=8),
    "Umbrella": Category(things.umbrella, lean=30),
}


def drawing(name: str, rng: Random, turned: bool = True) -> Drawing:
    """Draw the category in random colors and a random pose, fitted to the unit square."""
    category = CATEGORIES[name]
    main = rng.choice(category.colors)
    second = rng.choice([color for color in BRIGHT if color != main])
    turn = rng.uniform(-category.lean, category.lean) if turned else 0.0
    pose = Pose(turn, rng.random() < 0.5, rng.uniform(0.9, 1.1), rng.uniform(0.9, 1.1))
    return posed(category.draw(tints(main, second)), pose)


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
