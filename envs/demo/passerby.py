"""VSOD: a passer-by walks through a ring of frames and hides the objects of the question in the first one."""

from random import Random

from PIL import Image

from envs.demo.categories import BRIGHT, cycle_category, drawing
from envs.demo.entries import (
    STEMS,
    DemoQuestion,
    DemoSample,
    LazyMapping,
    entry,
    published_id,
    published_ids,
    purpose_rng,
)
from envs.demo.painting import Corner, Stage, paint, set_stage
from envs.demo.scenes import backdrop
from envs.demo.shapes import Drawing, arc, blob, bow, mix, oval, poly, rect

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
    return _sample(number, 1000 + index, seed, strong=False)


def _sample(number: int, index: int, seed: int, strong: bool) -> DemoSample:
    rng = purpose_rng("VSOD", index, seed, "picture")
    name, many = cycle_category("VSOD", index, seed), rng.randint(1, 4) if index % 4 == 3 else 0
    count = rng.choice((16, 20, 24))
    stage, middle = _stage(name, many, rng)
    first = count // 2 if strong else rng.choice((0, 1, count - 1))
    template = f"{STEMS['VSOD']}/Data/test/test_{number + 1:04d}/{{image}}.JPEG"
    line = entry(number, template, first, count, 0, _question(name, many, rng), rng, strong_occlusions=strong)
    corners = {template.format(image=f"{frame:04d}"): _person_corner(middle, frame, count) for frame in range(count)}
    return DemoSample("VSOD", line, LazyMapping(corners, stage.frame), LazyMapping(corners, stage.visibility))


def _question(name: str, many: int, rng: Random) -> DemoQuestion:
    if not many:
        prompt = rng.choice(("What is behind the person?", "Which object does the person walk past?"))
        return DemoQuestion(prompt, SUGGESTIONS, name)
    plural = PLURALS.get(name, f"{name.lower()}s")
    others = rng.sample([n for n in range(1, 10) if n != many], 3)
    categories = [f"{n}." for n in (many, *others)]
    rng.shuffle(categories)
    return DemoQuestion(f"How many {plural} are there in this video?", SUGGESTIONS, str(many), tuple(categories))


def _stage(name: str, many: int, rng: Random) -> tuple[Stage, int]:
    """Return the stage, and the column in pixels that the hidden objects are centered on."""
    middle = rng.randint(84, 108)
    if many:
        size, shape = 29, drawing(name, rng)
        spots = [(-29, 58), (1, 60), (-29, 92), (1, 90)]
        corners = [(middle + x, y) for x, y in rng.sample(spots, many)]
        objects = {corner: paint(shape, size) for corner in sorted(corners)}
    else:
        size = rng.randint(52, 60)
        objects = {(middle - size // 2, 124 - size): paint(drawing(name, rng), size)}
    return set_stage(backdrop(rng, (WIDTH, HEIGHT)), objects, _person(rng)), middle


def _person_corner(middle: int, frame: int, count: int) -> Corner:
    """Return the passer-by's position: left of the picture in frame 0, in front of the object in the middle frame."""
    stride = (middle + PERSON * 0.45) / (count // 2)
    bob = -3 if frame % 2 else 0
    return round(middle - PERSON / 2 + (frame - count // 2) * stride), 6 + bob


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
