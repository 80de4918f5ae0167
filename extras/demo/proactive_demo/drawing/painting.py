"""Paints drawings with smooth edges, by painting large and reducing; equal drawings and sizes give equal pixels."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageDraw, ImageFilter

from proactive_demo.drawing.shapes import INK, Color, Drawing, Patch, Point

Corner = tuple[int, int]
"""Left and top in pixels."""
SMOOTH = 3
"""Factor by which pictures are painted larger before they are reduced."""
OUTLINE = 0.016
"""Thickness of outlines as a share of the picture."""


def paint(patches: Iterable[Patch], size: int, outline: float = OUTLINE) -> Image.Image:
    """Paint the drawing as a transparent RGBA picture of ``size`` x ``size`` pixels."""
    large = size * SMOOTH
    picture = Image.new("RGBA", (large, large), (*INK, 0))
    pen = ImageDraw.Draw(picture)
    edge = max(SMOOTH, round(outline * large))
    for patch in patches:
        points = [(x * large, y * large) for x, y in patch.points]
        if patch.width:
            thick = max(SMOOTH, round(patch.width * large))
            if thick > 2 * edge or len(points) > 2:
                tube(pen, points, INK, thick + edge)
            tube(pen, points, patch.fill, thick)
        else:
            pen.polygon(points, patch.fill)
            tube(pen, [*points, points[0], points[1]], INK, edge)
    return picture.reduce(SMOOTH)


def tube(pen: ImageDraw.ImageDraw, points: list[Point], fill: Color, thick: int) -> None:
    """Draw a line with round ends and corners."""
    pen.line(points, fill, thick, joint="curve")
    r = thick / 2
    for x, y in (points[0], points[-1]):
        pen.ellipse((x - r, y - r, x + r, y + r), fill)


def place_sprite(background: Image.Image, sprite: Image.Image, corner: Corner) -> Image.Image:
    """Return a copy of the background with the sprite on it and a soft shadow under it."""
    picture = background.copy()
    left, _, right, bottom = sprite.getbbox() or (0, 0, *sprite.size)
    width, height = right - left, max(8, sprite.height // 7)
    shadow = Image.new("L", (width + 8, height))
    ImageDraw.Draw(shadow).ellipse((6, 2, width + 2, height - 3), 90)
    shadow = shadow.filter(ImageFilter.BoxBlur(2))
    picture.paste(INK, (corner[0] + left - 4, corner[1] + bottom - height * 3 // 5), shadow)
    picture.paste(sprite, corner, sprite)
    return picture


def silhouette(size: tuple[int, int], sprite: Image.Image, corner: Corner) -> Image.Image:
    """Return the sprite's opaque part as an L picture of the given size."""
    mask = Image.new("L", size)
    mask.paste(sprite.getchannel("A"), corner)
    return mask


def strokes(patches: Drawing, length: float) -> list[tuple[Point, ...]]:
    """Cut the drawing's outlines into pen strokes of at most ``length`` each, in drawing order."""
    outlines = (patch.points if patch.width else (*patch.points, patch.points[0]) for patch in patches)
    return [stroke for outline in outlines for stroke in _cut(outline, length)]


def _cut(points: tuple[Point, ...], length: float) -> list[tuple[Point, ...]]:
    pieces, piece, run = [], [points[0]], 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        distance = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        steps = max(1, round(distance / 0.05))
        for i in range(1, steps + 1):
            piece.append((x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps))
            run += distance / steps
            if run >= length:
                pieces.append(tuple(piece))
                piece, run = [piece[-1]], 0.0
    if len(piece) > 1:
        pieces.append(tuple(piece))
    return pieces


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
