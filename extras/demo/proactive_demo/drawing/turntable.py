"""MVP-N: an object turns; every view but the informative one shows a bare back or an edge instead of its picture."""

from collections.abc import Callable
from dataclasses import replace
from math import cos, pi, radians, sin
from random import Random

from PIL import Image

from proactive_demo.drawing.categories import cycle_category, drawing
from proactive_demo.drawing.entries import STEMS, DemoQuestion, DemoSample, entry, published_id, purpose_rng, slug
from proactive_demo.drawing.painting import paint, place_sprite
from proactive_demo.drawing.scenes import backdrop
from proactive_demo.drawing.shapes import (
    INK,
    Color,
    Drawing,
    Patch,
    Point,
    arc,
    extent,
    fit,
    line,
    mix,
    oval,
    poly,
    rect,
)

SIDE, SIZE = 144, 112
CARD: tuple[Color, ...] = ((214, 178, 132), (236, 226, 206), (190, 206, 222), (226, 190, 190), (196, 214, 186))
PAPER: Color = (252, 250, 244)
PROMPTS = {
    "box": ("What is pictured on the box?", "Which product is in this box?"),
    "can": ("What is pictured on the can?", "Which product is in this can?"),
    "figure": ("Which object is it?", "What does this cut-out figure show?"),
}
SUGGESTIONS = (
    "Rotate the object.", "Show another angle of the object.", "Change the orientation of the object.",
    "Move to a different side.",
)  # fmt: skip
Solid = Callable[[Drawing, Color, float], Drawing]
Spot = Callable[[float, float], Point]
"""A map from the unit square to the side of a solid."""


def turntable(index: int, seed: int) -> DemoSample:
    """Draw one sample of 2 to 5 views; the last one is informative."""
    rng = purpose_rng("MVP-N", index, seed, "picture")
    name, kind = cycle_category("MVP-N", index, seed), rng.choice(list(SOLIDS))
    count, number = rng.randint(2, 5), published_id("MVP-N", index)
    picture, color, ground = drawing(name, rng), rng.choice(CARD), backdrop(rng, (SIDE, SIDE))
    valid = rng.sample(range(1, 61), count)
    yaws = [*(_blind(kind, rng) for _ in range(count - 1)), rng.uniform(-28, 28)]
    template = f"{STEMS['MVP-N']}/test/{{informative}}/{slug(name)}_{number:04d}/{{image}}.jpg"
    question = DemoQuestion(rng.choice(PROMPTS[kind]), (rng.choice(SUGGESTIONS),), name)
    line = entry(number, template, valid[0], count, valid[-1], question, rng, valid_images=valid)
    angles = {
        template.format(informative=int(view == count - 1), image=f"{image:04d}"): yaw
        for view, (image, yaw) in enumerate(zip(valid, yaws, strict=True))
    }

    def frame(yaw: float) -> Image.Image:
        sprite = paint(fit(SOLIDS[kind](picture, color, yaw)), SIZE, 0.012)
        return place_sprite(ground, sprite, ((SIDE - SIZE) // 2, SIDE - SIZE - 10))

    return DemoSample("MVP-N", line, angles, frame, lambda yaw: float(abs(yaw) < 45))


def _blind(kind: str, rng: Random) -> float:
    """Return a yaw in degrees from which the picture is invisible."""
    return rng.uniform(85, 95) if kind == "figure" else rng.uniform(115, 245)


def box(picture: Drawing, color: Color, yaw: float) -> Drawing:
    """Draw a carton with the picture on its front, seen slightly from above."""
    a = radians(yaw)
    half, deep, tilt = 0.4, 0.22, 0.28

    def corner(x: float, y: float, z: float) -> Point:
        across, toward = x * cos(a) + z * sin(a), z * cos(a) - x * sin(a)
        return across, -y + toward * tilt

    faces: list[Patch] = []
    for turn, (wide, out) in enumerate(((half, deep), (deep, half), (half, deep), (deep, half))):
        b = radians(90 * turn)
        if cos(a + b) <= 0.01:
            continue
        spot = _face(corner, b, wide, out)
        faces.append(poly(mix(color, (60, 40, 60), 0.12 * (turn % 2)), spot(0, 0), spot(1, 0), spot(1, 1), spot(0, 1)))
        if turn == 2:
            faces += _barcode(spot)
        if turn == 0:
            faces.append(poly(PAPER, spot(0.08, 0.08), spot(0.92, 0.08), spot(0.92, 0.92), spot(0.08, 0.92)))
            faces += _print(picture, spot, 0.12)
    lid = [corner(x, half, z) for x, z in ((-half, -deep), (half, -deep), (half, deep), (-half, deep))]
    return (*faces, poly(mix(color, PAPER, 0.45), *lid))


def _print(picture: Drawing, spot: Spot, rim: float) -> list[Patch]:
    """Map the drawing to the side ``spot``, with a rim of paper around it."""
    inner = 1 - 2 * rim
    return [_map_patch(patch, lambda x, y: spot(rim + inner * x, rim + inner * y), 0.6) for patch in picture]


def _barcode(spot: Spot) -> list[Patch]:
    """Draw a price code on a slip of paper, for the back of an object."""
    slip = poly(PAPER, spot(0.3, 0.62), spot(0.7, 0.62), spot(0.7, 0.86), spot(0.3, 0.86))
    bars = (0.34, 0.385, 0.42, 0.47, 0.53, 0.56, 0.61, 0.65)
    return [slip, *(line(INK, 0.014, spot(x, 0.66), spot(x, 0.82)) for x in bars)]


def _face(corner: Callable[[float, float, float], Point], b: float, wide: float, out: float) -> Spot:
    """Map the unit square to the carton's side that is turned by b radians."""

    def spot(x: float, y: float) -> Point:
        u = (2 * x - 1) * wide
        return corner(u * cos(b) + out * sin(b), 0.4 - 0.8 * y, out * cos(b) - u * sin(b))

    return spot


def can(picture: Drawing, color: Color, yaw: float) -> Drawing:
    """Draw a tin with the picture on its label, seen slightly from above."""
    a, r = radians(yaw), 0.36

    def spot(x: float, y: float, around: float = a) -> Point:
        angle = around + (x - 0.5) * 1.9
        return r * sin(angle), -0.38 + 0.76 * y + 0.1 * cos(angle)

    def behind(x: float, y: float) -> Point:
        return spot(x, y, a + pi)

    body = poly(color, (-r, -0.42), *arc(0, 0.42, r, 0.1, 180, 0), (r, -0.42))
    rims = [oval((206, 210, 218), 0, -0.42, r, 0.1), oval((228, 232, 238), 0, -0.42, r * 0.86, 0.075)]
    label = _print(picture, spot, 0.1) if abs(yaw) < 45 else []
    if label:
        label.insert(0, poly(PAPER, *(spot(i / 8, 0.04) for i in range(9)), *(spot(1 - i / 8, 0.96) for i in range(9))))
    code = _barcode(behind) if abs(abs(yaw) - 180) < 55 else []
    return (body, *label, *code, *rims)


def figure(picture: Drawing, color: Color, yaw: float) -> Drawing:
    """Draw a cut-out figure on a foot; its edge is bare card."""
    squash = cos(radians(yaw))
    foot = (poly(mix(color, (60, 40, 60), 0.2), (-0.3, 0.5), (0.3, 0.5), (0.36, 0.6), (-0.36, 0.6)),)
    if abs(squash) < 0.2:
        lean = squash * 0.6
        return (*foot, rect(color, -0.03 + lean, -0.46, 0.03 + lean, 0.54))
    sunk = 0.54 - extent(picture)[3]
    return (*foot, *(_map_patch(p, lambda x, y: ((x - 0.5) * squash, y + sunk), 1.0) for p in picture))


SOLIDS: dict[str, Solid] = {"box": box, "can": can, "figure": figure}


def _map_patch(patch: Patch, spot: Spot, thin: float) -> Patch:
    return replace(patch, points=tuple(spot(x, y) for x, y in patch.points), width=patch.width * thin)
