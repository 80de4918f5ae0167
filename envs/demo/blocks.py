"""ROD: coloured blocks slide left or right before an object; frame 0 is clear and the middle frame hides it wholly."""

from __future__ import annotations

import itertools
from random import Random

from envs.demo.categories import BLUE, GREEN, ORANGE, PINK, PURPLE, RED, YELLOW, cycle_category, drawing
from envs.demo.entries import STEMS, DemoQuestion, DemoSample, Lazily, entry, published_id, purpose_rng
from envs.demo.painting import paint
from envs.demo.scenes import table
from envs.demo.shapes import Colour, Drawing, Patch, mix, oval, rect
from envs.demo.stage import Corner, set_stage

SIDE = 160
COLOURS = {"blue": BLUE, "red": RED, "green": GREEN, "yellow": YELLOW, "purple": PURPLE, "orange": ORANGE, "pink": PINK}
SURFACES = ("brownc", "greyr", "whitec", "oakr", "sandc")
WALL = 92
"""Width and height of the wall of blocks in pixels."""


def blocks(index: int, seed: int) -> DemoSample:
    """One sample; frames 1 and up move the blocks from the left edge to the right edge of the ring."""
    rng = purpose_rng("ROD", index, seed, "picture")
    name, colour, surface = cycle_category("ROD", index, seed), rng.choice(list(COLOURS)), rng.choice(SURFACES)
    count, size = rng.choice((10, 12, 14, 14)), rng.randint(60, 74)
    left, top = (SIDE - size) // 2 + rng.randint(-6, 6), 124 - size
    sprite = paint(drawing(name, rng), size)
    stage = set_stage(table(rng, (SIDE, SIDE)), {(left, top): sprite}, paint(wall_of(COLOURS[colour], rng), WALL))
    centre = (left + size // 2 - WALL // 2, 128 - WALL)
    number, thing = published_id("ROD", index), name.lower().replace(" ", "_")
    template = f"{STEMS['ROD']}/rod_{number + 1}/{thing}/natural_{colour}bl_{surface}-{thing}-s{{image}}.jpg"
    question = DemoQuestion(
        f"Given the context, what do you expect is behind the {colour} blocks?",
        (f"Move the {colour} blocks to the left.", f"Move the {colour} blocks to the right."),
        name,
    )
    line = entry(number, template, count // 2, count, 0, question, rng, attribute=surface)
    corners = {template.format(image=frame): slid(centre, frame, count) for frame in range(count)}
    return DemoSample("ROD", line, Lazily(corners, stage.frame), Lazily(corners, stage.seen))


def slid(centre: Corner, frame: int, count: int) -> Corner | None:
    """Where the blocks are in a frame; None in frame 0, when they have left."""
    if frame == 0:
        return None
    middle = count // 2
    return centre[0] + round((frame - middle) / (middle - 1) * 104), centre[1]


def wall_of(colour: Colour, rng: Random) -> Drawing:
    """A brick wall of toy blocks with studs on top, one course a shade of the colour."""
    rows, patches = 4, list[Patch]()
    for row in range(rows):
        top, half = 0.14 + row * 0.215, row % 2 * 0.16
        bounds = [0.0, *(half + 0.32 * i for i in range(4) if 0.05 < half + 0.32 * i < 0.95), 1.0]
        for a, b in itertools.pairwise(bounds):
            shade = mix(colour, (255, 255, 255), rng.uniform(0, 0.25))
            if row == 0:
                patches.append(oval(shade, (a + b) / 2, top, (b - a) * 0.25, 0.07))
            patches.append(rect(shade, a, top, b, top + 0.215))
    return tuple(patches)
