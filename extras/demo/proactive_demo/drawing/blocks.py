"""ROD: colored blocks slide left or right in front of an object; frame 0 is clear, the middle frame hides the object."""

import itertools
from random import Random

from proactive_demo.drawing.categories import PALETTE, cycle_category, drawing
from proactive_demo.drawing.entries import STEMS, DemoQuestion, DemoSample, entry, published_id, purpose_rng, slug
from proactive_demo.drawing.painting import Corner, paint, set_stage
from proactive_demo.drawing.scenes import table
from proactive_demo.drawing.shapes import Color, Drawing, Patch, mix, oval, rect

SIDE = 160
COLORS = ("blue", "red", "green", "yellow", "purple", "orange", "pink")
SURFACES = ("brownc", "greyr", "whitec", "oakr", "sandc")
WALL = 92
"""Width and height of the wall of blocks in pixels."""


def blocks(index: int, seed: int) -> DemoSample:
    """Draw one sample; frames 1 and up move the blocks from left to right."""
    rng = purpose_rng("ROD", index, seed, "picture")
    name, color, surface = cycle_category("ROD", index, seed), rng.choice(COLORS), rng.choice(SURFACES)
    count, size = rng.choice((10, 12, 14, 14)), rng.randint(60, 74)
    left, top = (SIDE - size) // 2 + rng.randint(-6, 6), 124 - size
    sprite = paint(drawing(name, rng), size)
    stage = set_stage(table(rng, (SIDE, SIDE)), {(left, top): sprite}, paint(_block_wall(PALETTE[color], rng), WALL))
    center = (left + size // 2 - WALL // 2, 128 - WALL)
    number, category = published_id("ROD", index), slug(name)
    template = f"{STEMS['ROD']}/rod_{number + 1}/{category}/natural_{color}bl_{surface}-{category}-s{{image}}.jpg"
    question = DemoQuestion(
        f"Given the context, what do you expect is behind the {color} blocks?",
        (f"Move the {color} blocks to the left.", f"Move the {color} blocks to the right."),
        name,
    )
    line = entry(number, template, count // 2, count, 0, question, rng, attribute=surface)
    corners = {template.format(image=frame): _wall_corner(center, frame, count) for frame in range(count)}
    return DemoSample("ROD", line, corners, stage.frame, stage.visibility)


def _wall_corner(center: Corner, frame: int, count: int) -> Corner | None:
    """Return the position of the blocks in a frame; None in frame 0, which shows none."""
    if frame == 0:
        return None
    middle = count // 2
    return center[0] + round((frame - middle) / (middle - 1) * 104), center[1]


def _block_wall(color: Color, rng: Random) -> Drawing:
    """Return a brick wall of toy blocks with studs on top, each course in a shade of the color."""
    rows, patches = 4, list[Patch]()
    for row in range(rows):
        top, half = 0.14 + row * 0.215, row % 2 * 0.16
        bounds = [0.0, *(half + 0.32 * i for i in range(4) if 0.05 < half + 0.32 * i < 0.95), 1.0]
        for a, b in itertools.pairwise(bounds):
            shade = mix(color, (255, 255, 255), rng.uniform(0, 0.25))
            if row == 0:
                patches.append(oval(shade, (a + b) / 2, top, (b - a) * 0.25, 0.07))
            patches.append(rect(shade, a, top, b, top + 0.215))
    return tuple(patches)
