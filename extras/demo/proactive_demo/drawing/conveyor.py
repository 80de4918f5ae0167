"""CIT: an object rides a conveyor belt through a video; it appears after the first image, or has left before it."""

from random import Random

from PIL import Image, ImageDraw

from proactive_demo.drawing.categories import BRIGHT, cycle_category, drawing
from proactive_demo.drawing.entries import STEMS, DemoQuestion, DemoSample, entry, published_id, purpose_rng, slug
from proactive_demo.drawing.painting import paint
from proactive_demo.drawing.scenes import wall
from proactive_demo.drawing.shapes import INK, Color, mix

WIDTH, HEIGHT, BELT, SMOOTH = 176, 132, 106, 2
"""Pixels, but ``SMOOTH`` is the factor of supersampling; ``BELT`` is the row on which objects stand."""
STRIDE = 12
"""Pixels that the belt moves per frame."""
PROMPTS = ("What object is shown in the video?", "Which object rides on the conveyor belt?", "What is on the belt?")
SUGGESTIONS = ("Rewind the video.", "Wait for the object to appear.")


def conveyor(index: int, seed: int) -> DemoSample:
    """Draw one sample; even ones begin before the object comes, odd ones after it has left."""
    rng = purpose_rng("CIT", index, seed, "picture")
    name, size, step, late = cycle_category("CIT", index, seed), rng.randint(76, 90), rng.randint(3, 5), index % 2 == 0
    count = step * rng.randint(5, 7)
    first, best = _ends(step, count, late, rng)
    sprite = paint(drawing(name, rng), size)
    sprite, empty = sprite.crop(sprite.getbbox()), _draw_hall(rng)
    lefts = [_left(frame - best, late, sprite.width) for frame in range(count)]
    number = published_id("CIT", index)
    template = f"{STEMS['CIT']}/{slug(name)}/video_{number:04d}/{{image}}.jpg"
    question = DemoQuestion(rng.choice(PROMPTS), SUGGESTIONS, name)
    line = entry(number, template, first, count, best, question, rng, step_size=step, max_steps=count // step + 1)
    numbers = {template.format(image=image): image for image in range(count)}

    def frame(image: int) -> Image.Image:
        picture = _draw_seams(empty, image)
        picture.paste(sprite, (lefts[image], BELT - sprite.height), sprite)
        return picture

    def visibility(image: int) -> float:
        inside = min(WIDTH, lefts[image] + sprite.width) - max(0, lefts[image])
        return round(max(0, inside) / sprite.width, 4)

    return DemoSample("CIT", line, numbers, frame, visibility)


def _ends(step: int, count: int, late: bool, rng: Random) -> tuple[int, int]:
    """Return the first image, and the last one that steps from it can reach, which shows the whole object.

    The first is so near an end of the video that only one suggestion is offered: the published answers of open-ended
    generation add a rewind to the offered suggestions, and expect two suggestions in all.
    """
    near = rng.randrange(0, step)
    far = near + step * ((count - 1 - near) // step)
    return (near, far) if late else (count - 1 - near, count - 1 - far)


def _left(frame: int, late: bool, width: int) -> int:
    """Return the object's left edge ``frame`` frames after its best view: it stops in the middle, or starts there."""
    middle = (WIDTH - width) // 2
    return middle + STRIDE * (min(0, frame) if late else max(0, frame))


def _draw_hall(rng: Random) -> Image.Image:
    """Draw the room and the frame of the belt."""
    picture = wall(rng, (WIDTH, HEIGHT)).resize((WIDTH * SMOOTH, HEIGHT * SMOOTH))
    pen = ImageDraw.Draw(picture)
    color: Color = mix(rng.choice(BRIGHT), (70, 70, 86), 0.5)
    top, x1 = BELT * SMOOTH, WIDTH * SMOOTH
    pen.rectangle((0, top - 6, x1, top + 22), (84, 84, 98), INK, SMOOTH)
    pen.rectangle((0, top + 22, x1, top + 34), color, INK, SMOOTH)
    return picture.reduce(SMOOTH)


def _draw_seams(empty: Image.Image, frame: int) -> Image.Image:
    """Draw the seams that move with the belt."""
    picture = empty.copy()
    pen = ImageDraw.Draw(picture)
    for x in range(frame * STRIDE % 24 - 24, WIDTH, 24):
        pen.line((x, BELT - 1, x + 5, BELT + 8), (122, 122, 136), 2)
    return picture
