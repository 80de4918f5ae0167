"""Something passes before an object: what is seen of the object is counted in its own pixels, not guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image, ImageChops

from envs.demo.painting import place_sprite, silhouette

Corner = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stage:
    """A clear picture, where its object is, and what can be put before it."""

    clear: Image.Image
    target: Image.Image
    """L picture: the object's own pixels."""
    cover: Image.Image
    """RGBA sprite of what hides the object."""

    def frame(self, corner: Corner | None) -> Image.Image:
        """RGB picture with the cover's upper left corner there; None: no cover."""
        picture = self.clear.copy()
        if corner is not None:
            picture.paste(self.cover, corner, self.cover)
        return picture

    def seen(self, corner: Corner | None) -> float:
        """The share of the object's pixels that is not covered, 0 to 1."""
        if corner is None:
            return 1.0
        covered = silhouette(self.clear.size, self.cover, corner)
        hidden = weight(ImageChops.multiply(self.target, covered))
        return round(1.0 - hidden / weight(self.target), 4)


def set_stage(background: Image.Image, objects: Mapping[Corner, Image.Image], cover: Image.Image) -> Stage:
    """The stage with each sprite standing at its corner."""
    clear, target = background, Image.new("L", background.size)
    for corner, sprite in objects.items():
        clear = place_sprite(clear, sprite, corner)
        target = ImageChops.lighter(target, silhouette(clear.size, sprite, corner))
    return Stage(clear, target, cover)


def weight(mask: Image.Image) -> int:
    """The sum of all values of an L picture."""
    return sum(value * count for value, count in enumerate(mask.histogram()))
