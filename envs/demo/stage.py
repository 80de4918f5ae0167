"""A cover that passes in front of an object: visibility is counted in the object's pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image, ImageChops

from envs.demo.painting import place_sprite, silhouette

Corner = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stage:
    """A clear picture, the mask of its object, and the sprite that can hide it."""

    clear: Image.Image
    target: Image.Image
    """L picture of the object's pixels."""
    cover: Image.Image
    """RGBA sprite that hides the object."""

    def frame(self, corner: Corner | None) -> Image.Image:
        """Return the RGB picture with the cover's upper left corner at ``corner``; None leaves the cover out."""
        picture = self.clear.copy()
        if corner is not None:
            picture.paste(self.cover, corner, self.cover)
        return picture

    def visibility(self, corner: Corner | None) -> float:
        """Return the share of the object's pixels that is not covered, 0 to 1."""
        if corner is None:
            return 1.0
        covered = silhouette(self.clear.size, self.cover, corner)
        hidden = weight(ImageChops.multiply(self.target, covered))
        return round(1.0 - hidden / weight(self.target), 4)


def set_stage(background: Image.Image, objects: Mapping[Corner, Image.Image], cover: Image.Image) -> Stage:
    """Return the stage with each sprite at its corner."""
    clear, target = background, Image.new("L", background.size)
    for corner, sprite in objects.items():
        clear = place_sprite(clear, sprite, corner)
        target = ImageChops.lighter(target, silhouette(clear.size, sprite, corner))
    return Stage(clear, target, cover)


def weight(mask: Image.Image) -> int:
    """Return the sum of all values of an L picture."""
    return sum(value * count for value, count in enumerate(mask.histogram()))
