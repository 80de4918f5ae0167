"""IN-C: a picture begins at corruption level 5, and each request for the right repair lowers the level by one.

Each of the eight corruptions leaves an object recognizable at level 1 and unrecognizable at level 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from random import Random

from PIL import Image, ImageEnhance, ImageFilter

from proactive_demo.drawing.categories import cycle_category, drawing
from proactive_demo.drawing.entries import STEMS, DemoQuestion, DemoSample, entry, published_id, purpose_rng, slug
from proactive_demo.drawing.painting import paint, place_sprite
from proactive_demo.drawing.scenes import backdrop

SIDE, LEVELS = 160, 5
VISIBILITY = (1.0, 0.85, 0.5, 0.2, 0.0)
"""How informative corruption levels 1 to 5 are."""
PROMPTS = ("What is in the image?", "What type of object is in the image?", "Which object do you see in this image?")

Corrupt = Callable[[Image.Image, int, Random], Image.Image]


@dataclass(frozen=True, slots=True)
class Corruption:
    """One way to corrupt a picture, and the suggestion that undoes one level of it."""

    apply: Corrupt
    suggestion: str


def darken(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    return ImageEnhance.Brightness(picture).enhance((0.7, 0.35, 0.14, 0.035, 0.01)[level - 1])


def flatten(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    return ImageEnhance.Contrast(picture).enhance((0.7, 0.4, 0.14, 0.035, 0.006)[level - 1])


def oversaturate(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    """Overdrive the colors until they bleed into clouds."""
    clouds = Image.frombytes("RGB", (7, 7), rng.randbytes(147)).resize(picture.size, Image.Resampling.BICUBIC)
    clouds = ImageEnhance.Color(clouds).enhance(3.0)
    bled = Image.blend(picture, clouds, (0.1, 0.35, 0.65, 0.88, 0.98)[level - 1])
    return ImageEnhance.Color(bled).enhance((1.8, 2.5, 3.0, 3.0, 3.0)[level - 1])


def blur(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(picture.width * (0.008, 0.02, 0.05, 0.12, 0.3)[level - 1]))


def add_noise(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    noise = Image.frombytes("RGB", picture.size, rng.randbytes(3 * picture.width * picture.height))
    return Image.blend(picture, noise, (0.12, 0.35, 0.65, 0.85, 0.98)[level - 1])


def compress(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    """Save as JPEG at the lowest qualities and at decreasing sizes, so that few blocks remain."""
    quality, share = ((25, 1.0), (6, 0.8), (2, 0.5), (1, 0.2), (1, 0.1))[level - 1]
    small = picture.resize((round(picture.width * share), round(picture.height * share)), Image.Resampling.BOX)
    buffer = BytesIO()
    small.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB").resize(picture.size, Image.Resampling.BICUBIC)


def pixelate(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    cells = (80, 32, 14, 7, 3)[level - 1]
    return picture.resize((cells, cells), Image.Resampling.BOX).resize(picture.size, Image.Resampling.NEAREST)


def tear(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    """Break the transmission: displace tiles, and draw bars of false color."""
    tile, share = 16, (0.06, 0.25, 0.55, 0.85, 1.0)[level - 1]
    spots = [(x, y) for y in range(0, picture.height, tile) for x in range(0, picture.width, tile)]
    moved = rng.sample(spots, round(share * len(spots)))
    targets = rng.sample(moved, len(moved))
    broken = picture.copy()
    for (x, y), target in zip(moved, targets, strict=True):
        broken.paste(picture.crop((x, y, x + tile, y + tile)).rotate(90 * rng.randrange(4 if level > 3 else 1)), target)
    for _ in range(3 * level):
        y, height = rng.randrange(picture.height), rng.randint(1, 1 + level)
        broken.paste(tuple(rng.randbytes(3)), (0, y, picture.width, y + height))
    return broken


CORRUPTIONS: dict[str, Corruption] = {
    "brightness": Corruption(darken, "Increase the image brightness."),
    "contrast": Corruption(flatten, "Increase the image contrast."),
    "saturate": Corruption(oversaturate, "Reduce the color saturation."),
    "blur": Corruption(blur, "Deblur the image."),
    "noise": Corruption(add_noise, "Denoise the image."),
    "jpeg_compression": Corruption(compress, "Reduce the image compression."),
    "pixelate": Corruption(pixelate, "Increase the image resolution."),
    "artifacts": Corruption(tear, "Remove the artifacts from the image."),
}
"""Folder name -> corruption; each suggestion contains the one cue of its move."""


def quality(index: int, seed: int) -> DemoSample:
    """Draw one sample of five levels; one of its three suggested enhancements helps."""
    rng = purpose_rng("IN-C", index, seed, "picture")
    name, kinds = cycle_category("IN-C", index, seed), list(CORRUPTIONS)
    kind = kinds[(index + index // len(kinds)) % len(kinds)]
    size = rng.randint(84, 116)
    corner = (rng.randint(8, SIDE - size - 8), rng.randint(8, SIDE - size - 8))
    plain = place_sprite(backdrop(rng, (SIDE, SIDE)), paint(drawing(name, rng), size), corner)
    number, remedy = published_id("IN-C", index), CORRUPTIONS[kind].suggestion
    others = rng.sample([c.suggestion for c in CORRUPTIONS.values() if c.suggestion != remedy], 2)
    template = f"{STEMS['IN-C']}/{kind}/{{level}}/{slug(name)}/val_{number:08d}.JPEG"
    question = DemoQuestion(rng.choice(PROMPTS), (remedy, *others), name)
    line = entry(number, template, LEVELS, LEVELS, 1, question, rng, quality_answer=remedy)
    levels = {template.format(level=level): level for level in range(1, LEVELS + 1)}

    def frame(level: int) -> Image.Image:
        return CORRUPTIONS[kind].apply(plain, level, purpose_rng("IN-C", index, seed, f"level {level}"))

    return DemoSample("IN-C", line, levels, frame, lambda level: VISIBILITY[level - 1])
