"""Backgrounds: none shows an object of a category, and each is paler than the objects in front of it."""

from collections.abc import Callable
from math import sin
from random import Random

from PIL import Image, ImageDraw

from proactive_demo.drawing.shapes import Color, mix

PASTELS: tuple[Color, ...] = (
    (250, 232, 205), (222, 238, 226), (216, 230, 246), (246, 220, 226), (232, 224, 244), (244, 242, 218), (214, 240, 240),
)  # fmt: skip
WOODS: tuple[Color, ...] = ((206, 170, 128), (184, 150, 118), (222, 196, 160), (168, 142, 124))
GRASS: tuple[Color, ...] = ((176, 212, 150), (160, 204, 160), (196, 214, 140))
SKIES: tuple[Color, ...] = ((190, 222, 244), (250, 214, 190), (206, 200, 236), (240, 232, 200))
WHITE: Color = (255, 255, 255)
SMOOTH = 2

Size = tuple[int, int]


def backdrop(rng: Random, size: Size) -> Image.Image:
    """Draw a random scene, RGB; ``size`` is (width, height) in pixels."""
    return rng.choice(BACKDROPS)(rng, size)


def table(rng: Random, size: Size) -> Image.Image:
    """Draw a papered wall and a table top that begins at two thirds of the height."""
    width, height = size[0] * SMOOTH, size[1] * SMOOTH
    picture = papered(rng, (width, height))
    pen = ImageDraw.Draw(picture)
    edge = height * 0.66
    wood = rng.choice(WOODS)
    pen.rectangle((0, edge, width, height), wood)
    pen.rectangle((0, edge, width, edge + height * 0.02), mix(wood, WHITE, 0.4))
    for _ in range(7):
        y, x = rng.uniform(edge + height * 0.05, height), rng.uniform(-0.2, 0.9) * width
        pen.line((x, y, x + rng.uniform(0.2, 0.5) * width, y), mix(wood, (90, 60, 40), 0.18), SMOOTH)
    return picture.reduce(SMOOTH)


def papered(rng: Random, size: Size) -> Image.Image:
    """Draw a wall with stripes, dots or diamonds."""
    width, height = size
    base = rng.choice(PASTELS)
    tone = mix(base, rng.choice(PASTELS), 0.5) if rng.random() < 0.3 else mix(base, WHITE, 0.45)
    picture = Image.new("RGB", size, base)
    pen = ImageDraw.Draw(picture)
    step = rng.uniform(0.1, 0.18) * width
    pattern = rng.choice(("stripes", "dots", "diamonds"))
    for i in range(int(width / step) + 2):
        if pattern == "stripes":
            pen.rectangle((i * step, 0, i * step + step * 0.5, height), tone)
            continue
        for j in range(int(height / step) + 2):
            x, y, r = (i + j % 2 / 2) * step, j * step, step * 0.17
            if pattern == "dots":
                pen.ellipse((x - r, y - r, x + r, y + r), tone)
            else:
                pen.polygon(((x, y - r), (x + r, y), (x, y + r), (x - r, y)), tone)
    return picture


def wall(rng: Random, size: Size) -> Image.Image:
    """Draw a papered wall with a rug-colored floor."""
    width, height = size[0] * SMOOTH, size[1] * SMOOTH
    picture = papered(rng, (width, height))
    pen = ImageDraw.Draw(picture)
    floor = mix(rng.choice(PASTELS), (120, 100, 110), 0.3)
    pen.rectangle((0, height * 0.78, width, height), floor)
    pen.rectangle((0, height * 0.75, width, height * 0.78), WHITE)
    return picture.reduce(SMOOTH)


def meadow(rng: Random, size: Size) -> Image.Image:
    """Draw a sky that pales downward, clouds, and rolling hills."""
    width, height = size[0] * SMOOTH, size[1] * SMOOTH
    picture = gradient((width, height), rng.choice(SKIES), (252, 248, 240))
    pen = ImageDraw.Draw(picture)
    for _ in range(3):
        cloud(pen, rng.uniform(0, 1) * width, rng.uniform(0.08, 0.35) * height, rng.uniform(0.06, 0.1) * width)
    grass = rng.choice(GRASS)
    for layer in range(3):
        hill(pen, (width, height), 0.5 + 0.12 * layer, mix(grass, (110, 150, 110), 0.18 * layer), rng)
    return picture.reduce(SMOOTH)


def beach(rng: Random, size: Size) -> Image.Image:
    """Draw sky, a band of sea, and sand."""
    width, height = size[0] * SMOOTH, size[1] * SMOOTH
    picture = gradient((width, height), rng.choice(SKIES), (252, 246, 236))
    pen = ImageDraw.Draw(picture)
    for i in range(4):
        pen.rectangle((0, height * (0.46 + 0.05 * i), width, height), mix((150, 206, 222), (226, 244, 240), i / 4))
    hill(pen, (width, height), 0.66, (240, 220, 176), rng)
    for _ in range(40):
        x, y = rng.uniform(0, width), rng.uniform(0.76, 1) * height
        pen.ellipse((x, y, x + 2 * SMOOTH, y + SMOOTH), (222, 198, 152))
    return picture.reduce(SMOOTH)


def carpet(rng: Random, size: Size) -> Image.Image:
    """Draw a checkered floor from above."""
    width, height = size[0] * SMOOTH, size[1] * SMOOTH
    base = rng.choice(PASTELS)
    tone = mix(base, WHITE, 0.5)
    picture = Image.new("RGB", (width, height), base)
    pen = ImageDraw.Draw(picture)
    step = round(rng.uniform(0.1, 0.2) * width)
    for i in range(width // step + 1):
        for j in range(height // step + 1):
            if (i + j) % 2:
                pen.rectangle((i * step, j * step, i * step + step - 1, j * step + step - 1), tone)
    return picture.reduce(SMOOTH)


BACKDROPS: tuple[Callable[[Random, Size], Image.Image], ...] = (table, wall, meadow, beach, carpet)


def gradient(size: Size, top: Color, bottom: Color) -> Image.Image:
    """Return a gradient from top to bottom."""
    column = Image.new("RGB", (1, 16))
    column.putdata([mix(top, bottom, i / 15) for i in range(16)])
    return column.resize(size, Image.Resampling.BILINEAR)


def cloud(pen: ImageDraw.ImageDraw, x: float, y: float, r: float) -> None:
    for dx, dy, k in ((-1.1, 0.2, 0.7), (0, 0, 1), (1.1, 0.25, 0.65)):
        pen.ellipse(
            (x + (dx - k) * r, y + (dy - k * 0.7) * r, x + (dx + k) * r, y + (dy + k * 0.7) * r), (255, 253, 248)
        )


def hill(pen: ImageDraw.ImageDraw, size: Size, level: float, fill: Color, rng: Random) -> None:
    width, height = size
    phase, bend = rng.uniform(0, 6.28), rng.uniform(1.2, 2.6)
    ridge = [(i * width / 24, height * (level + 0.05 * sin(phase + bend * i * 6.28 / 24))) for i in range(25)]
    pen.polygon([(0, height), *ridge, (width, height)], fill)
