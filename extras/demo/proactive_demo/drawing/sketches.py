"""QD: a sketch gains strokes per request, from a first one that shows almost nothing to the complete drawing."""

from random import Random

from PIL import Image, ImageDraw

from proactive_demo.drawing.categories import cycle_category, drawing
from proactive_demo.drawing.entries import STEMS, DemoQuestion, DemoSample, entry, published_id, purpose_rng, slug
from proactive_demo.drawing.painting import strokes
from proactive_demo.drawing.shapes import Point

SIDE, SMOOTH, STROKE = 160, 3, 0.34
"""Pixels, factor of supersampling, and the longest stroke of the pen as a share of the picture."""
PROMPTS = ("What does this quickdraw represent?", "Which object is sketched here?", "What is being drawn?")
SUGGESTIONS = (
    "Add more details.", "Add more strokes to the drawing.", "Continue the sketch.", "Draw another part of the quickdraw.",
)  # fmt: skip


def sketch(index: int, seed: int) -> DemoSample:
    """Draw one sample of 5 to 12 images, each with a few more strokes than the last."""
    rng = purpose_rng("QD", index, seed, "picture")
    name = cycle_category("QD", index, seed)
    pen = [_wobble(piece, rng) for piece in strokes(drawing(name, rng), STROKE)]
    count = min(rng.randint(5, 12), len(pen))
    counts = [1, *(round(1 + (len(pen) - 1) * step / (count - 1)) for step in range(1, count))]
    number = published_id("QD", index)
    template = f"{STEMS['QD']}/{slug(name)}/{number:06d}/{{image}}.png"
    question = DemoQuestion(rng.choice(PROMPTS), (rng.choice(SUGGESTIONS),), name)
    line = entry(number, template, 0, count, count - 1, question, rng)
    numbers = {template.format(image=f"{image:04d}"): strokes_so_far for image, strokes_so_far in enumerate(counts)}
    last = len(pen) - 1
    return DemoSample("QD", line, numbers, lambda n: _draw_strokes(pen[:n]), lambda n: round((n - 1) / last, 4))


def _wobble(piece: tuple[Point, ...], rng: Random) -> tuple[Point, ...]:
    """Return the stroke as an unsteady hand draws it."""
    return tuple((0.08 + 0.84 * x + rng.gauss(0, 0.0035), 0.08 + 0.84 * y + rng.gauss(0, 0.0035)) for x, y in piece)


def _draw_strokes(pieces: list[tuple[Point, ...]]) -> Image.Image:
    """Draw black strokes on white, RGB."""
    large = SIDE * SMOOTH
    paper = Image.new("L", (large, large), 255)
    pen = ImageDraw.Draw(paper)
    for piece in pieces:
        pen.line([(x * large, y * large) for x, y in piece], 25, 2 * SMOOTH, joint="curve")
    return paper.reduce(SMOOTH).convert("RGB")
