"""VSOD: a passer-by walks through a ring of frames; an episode starts where the objects of the question are hidden."""

from random import Random

from PIL import Image

from proactive_demo.drawing.categories import BRIGHT, cycle_category, drawing
from proactive_demo.drawing.entries import (
    STEMS,
    DemoQuestion,
    DemoSample,
    entry,
    published_id,
    published_ids,
    purpose_rng,
)
from proactive_demo.drawing.painting import Corner, Stage, paint, set_stage
from proactive_demo.drawing.scenes import backdrop
from proactive_demo.drawing.shapes import Drawing, arc, blob, bow, mix, oval, poly, rect

WIDTH, HEIGHT = 192, 144
PERSON = 150
"""Height of the passer-by's sprite in pixels; feet are below the picture."""
SKINS = ((250, 214, 180), (226, 174, 130), (170, 116, 80), (112, 74, 54))
HAIRS = ((60, 44, 40), (140, 88, 44), (226, 190, 110), (150, 150, 156))
PLURALS = {
    "Fish": "fish", "Glasses": "pairs of glasses", "Scissors": "pairs of scissors", "Butterfly": "butterflies",
    "Cactus": "cacti",
}  # fmt: skip
SUGGESTIONS = ("Rewind the video.", "Wait for the occlusion to disappear.")


def passerby(index: int, seed: int) -> DemoSample:
    """Draw one sample that the published filter keeps: a strong occlusion."""
    return _sample(published_id("VSOD", index), index, seed, strong=True)


def weak_passerby(index: int, seed: int) -> DemoSample:
    """Draw one sample that the published filter drops: the object is in plain view from the start."""
    published = published_ids()["VSOD"]
    number = [i for i in range(max(published)) if i not in published][index]
    return _sample(number, 1000 + index, seed, strong=False)  # 1000 more: no random draws of a strong sample


def _sample(number: int, index: int, seed: int, strong: bool) -> DemoSample:
    """Draw the sample; every fourth asks how many objects there are, the others which object it is."""
    rng = purpose_rng("VSOD", index, seed, "picture")
    name, object_count = cycle_category("VSOD", index, seed), rng.randint(1, 4) if index % 4 == 3 else 0
    frames = rng.choice((16, 20, 24))
    stage, center = _stage(name, object_count, rng)
    first = frames // 2 if strong else rng.choice((0, 1, frames - 1))
    template = f"{STEMS['VSOD']}/Data/test/test_{number + 1:04d}/{{image}}.JPEG"
    line = entry(number, template, first, frames, 0, _question(name, object_count, rng), rng, strong_occlusions=strong)
    corners = {template.format(image=f"{frame:04d}"): _person_corner(center, frame, frames) for frame in range(frames)}
    return DemoSample("VSOD", line, corners, stage.frame, stage.visibility)


def _question(name: str, object_count: int, rng: Random) -> DemoQuestion:
    """Return the question: how many, or for a count of 0 which object."""
    if not object_count:
        prompt = rng.choice(("What is behind the person?", "Which object does the person walk past?"))
        return DemoQuestion(prompt, SUGGESTIONS, name)
    plural = PLURALS.get(name, f"{name.lower()}s")
    others = rng.sample([n for n in range(1, 10) if n != object_count], 3)
    categories = [f"{n}." for n in (object_count, *others)]
    rng.shuffle(categories)
    return DemoQuestion(
        f"How many {plural} are there in this video?", SUGGESTIONS, str(object_count), tuple(categories)
    )


def _stage(name: str, object_count: int, rng: Random) -> tuple[Stage, int]:
    """Return the stage, and the column in pixels that the hidden objects are centered on; a count of 0 means one big object."""
    center = rng.randint(84, 108)
    if object_count:
        size, shape = 29, drawing(name, rng)
        spots = [(-29, 58), (1, 60), (-29, 92), (1, 90)]
        corners = [(center + x, y) for x, y in rng.sample(spots, object_count)]
        objects = {corner: paint(shape, size) for corner in sorted(corners)}
    else:
        size = rng.randint(52, 60)
        objects = {(center - size // 2, 124 - size): paint(drawing(name, rng), size)}
    return set_stage(backdrop(rng, (WIDTH, HEIGHT)), objects, _person(rng)), center


def _person_corner(center: int, frame: int, frames: int) -> Corner:
    """Return the passer-by's position: left of the picture in frame 0, in front of the object in the middle frame."""
    stride = (center + PERSON * 0.45) / (frames // 2)
    bob = -3 if frame % 2 else 0
    return round(center - PERSON / 2 + (frame - frames // 2) * stride), 6 + bob


def _person(rng: Random) -> Image.Image:
    """Paint a stout passer-by close to the camera, in a wide coat."""
    coat, hat = rng.sample(BRIGHT, 2)
    return paint(_figure(coat, hat, rng), PERSON, 0.01)


def _figure(coat: tuple[int, int, int], hat: tuple[int, int, int], rng: Random) -> Drawing:
    skin, hair = rng.choice(SKINS), rng.choice(HAIRS)
    dark = mix(coat, (30, 20, 50), 0.25)
    body = blob(
        coat, (0.38, 0.29), (0.62, 0.29), (0.75, 0.36), (0.77, 0.7), (0.77, 0.99), (0.5, 1.0), (0.23, 0.99),
        (0.23, 0.7), (0.25, 0.36),
    )  # fmt: skip
    sleeves = [bow(dark, 0.1, (0.5 + s * 0.23, 0.4), (0.5 + s * 0.27, 0.6), (0.5 + s * 0.22, 0.8)) for s in (-1, 1)]
    hands = [oval(skin, 0.5 + s * 0.22, 0.84, 0.045, 0.045) for s in (-1, 1)]
    buttons = [oval(mix(coat, (255, 255, 255), 0.6), 0.5, y, 0.018, 0.018) for y in (0.48, 0.62, 0.76)]
    head = [oval(hair, 0.5, 0.17, 0.13, 0.14), oval(skin, 0.52, 0.19, 0.105, 0.11)]
    face = [oval((44, 40, 56), x, 0.18, 0.011, 0.015) for x in (0.5, 0.57)]
    smile = bow((150, 70, 70), 0.012, (0.5, 0.235), (0.535, 0.25), (0.57, 0.235))
    cap = [poly(hat, *arc(0.5, 0.12, 0.135, 0.11, 180, 360)), rect(hat, 0.36, 0.11, 0.72, 0.14)]
    scarf = rect(hat, 0.37, 0.275, 0.63, 0.33)
    return (body, *sleeves, *hands, *buttons, scarf, *head, *face, smile, *cap)
