"""Each of eight corruptions leaves an object plain at level 1 and unrecognisable at level 5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from random import Random

from PIL import Image, ImageEnhance, ImageFilter

Corrupt = Callable[[Image.Image, int, Random], Image.Image]


@dataclass(frozen=True, slots=True)
class Corruption:
    """One way to spoil a picture, and the suggestion that undoes a level of it."""

    apply: Corrupt
    suggestion: str


def darkened(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    return ImageEnhance.Brightness(picture).enhance((0.7, 0.35, 0.14, 0.035, 0.01)[level - 1])


def flattened(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    return ImageEnhance.Contrast(picture).enhance((0.7, 0.4, 0.14, 0.035, 0.006)[level - 1])


def oversaturated(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    """Colours are overdriven until they bleed into clouds of their own."""
    clouds = Image.frombytes("RGB", (7, 7), rng.randbytes(147)).resize(picture.size, Image.Resampling.BICUBIC)
    clouds = ImageEnhance.Color(clouds).enhance(3.0)
    bled = Image.blend(picture, clouds, (0.1, 0.35, 0.65, 0.88, 0.98)[level - 1])
    return ImageEnhance.Color(bled).enhance((1.8, 2.5, 3.0, 3.0, 3.0)[level - 1])


def blurred(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(picture.width * (0.008, 0.02, 0.05, 0.12, 0.3)[level - 1]))


def noisy(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    noise = Image.frombytes("RGB", picture.size, rng.randbytes(3 * picture.width * picture.height))
    return Image.blend(picture, noise, (0.12, 0.35, 0.65, 0.85, 0.98)[level - 1])


def compressed(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    """Saved as JPEG at the lowest qualities; ever smaller, so that few blocks remain."""
    quality, share = ((25, 1.0), (6, 0.8), (2, 0.5), (1, 0.2), (1, 0.1))[level - 1]
    small = picture.resize((round(picture.width * share), round(picture.height * share)), Image.Resampling.BOX)
    buffer = BytesIO()
    small.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB").resize(picture.size, Image.Resampling.BICUBIC)


def pixelated(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    cells = (80, 32, 14, 7, 3)[level - 1]
    return picture.resize((cells, cells), Image.Resampling.BOX).resize(picture.size, Image.Resampling.NEAREST)


def torn(picture: Image.Image, level: int, rng: Random) -> Image.Image:
    """A broken transmission: tiles out of place, and bars of false colour across."""
    tile, share = 16, (0.06, 0.25, 0.55, 0.85, 1.0)[level - 1]
    spots = [(x, y) for y in range(0, picture.height, tile) for x in range(0, picture.width, tile)]
    moved = rng.sample(spots, round(share * len(spots)))
    places = rng.sample(moved, len(moved))
    broken = picture.copy()
    for (x, y), place in zip(moved, places, strict=True):
        broken.paste(picture.crop((x, y, x + tile, y + tile)).rotate(90 * rng.randrange(4 if level > 3 else 1)), place)
    for _ in range(3 * level):
        y, high = rng.randrange(picture.height), rng.randint(1, 1 + level)
        broken.paste(tuple(rng.randbytes(3)), (0, y, picture.width, y + high))
    return broken


CORRUPTIONS: dict[str, Corruption] = {
    "brightness": Corruption(darkened, "Increase the image brightness."),
    "contrast": Corruption(flattened, "Increase the image contrast."),
    "saturate": Corruption(oversaturated, "Reduce the color saturation."),
    "blur": Corruption(blurred, "Deblur the image."),
    "noise": Corruption(noisy, "Denoise the image."),
    "jpeg_compression": Corruption(compressed, "Reduce the image compression."),
    "pixelate": Corruption(pixelated, "Increase the image resolution."),
    "artifacts": Corruption(torn, "Remove the artifacts from the image."),
}
"""Folder name of the corruption -> what it does; each suggestion holds the one word its move is known by."""
