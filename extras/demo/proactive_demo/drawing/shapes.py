"""A drawing is patches in the unit square, so that one definition serves paintings, sketches and silhouettes.

x grows to the right and y downwards; (0, 0) is the upper left corner of the drawing's frame.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import cos, pi, radians, sin

Point = tuple[float, float]
Color = tuple[int, int, int]
Drawing = tuple["Patch", ...]

INK: Color = (44, 40, 56)
"""Color of outlines."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One polygon (``width`` 0) or one open line."""

    points: tuple[Point, ...]
    fill: Color
    width: float = 0.0
    """Thickness of an open line, as a share of the frame."""


def mix(a: Color, b: Color, share: float) -> Color:
    """Return the color ``share`` of the way from a to b."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def poly(fill: Color, *points: Point) -> Patch:
    return Patch(points, fill)


def rect(fill: Color, left: float, top: float, right: float, bottom: float) -> Patch:
    return poly(fill, (left, top), (right, top), (right, bottom), (left, bottom))


def line(fill: Color, width: float, *points: Point) -> Patch:
    return Patch(points, fill, width)


def arc(cx: float, cy: float, rx: float, ry: float, start: float, stop: float) -> tuple[Point, ...]:
    """Return points of an ellipse from angle ``start`` to ``stop`` in degrees, clockwise, 0 pointing right."""
    steps = max(4, round(abs(stop - start) / 12))
    angles = [radians(start + (stop - start) * i / steps) for i in range(steps + 1)]
    return tuple((cx + rx * cos(a), cy + ry * sin(a)) for a in angles)


def oval(fill: Color, cx: float, cy: float, rx: float, ry: float) -> Patch:
    return Patch(arc(cx, cy, rx, ry, -90, 270)[:-1], fill)


def ring(fill: Color, width: float, cx: float, cy: float, rx: float, ry: float) -> Patch:
    return Patch(arc(cx, cy, rx, ry, -90, 270), fill, width)


def bow(fill: Color, width: float, *points: Point) -> Patch:
    """Return a smooth open line through the points."""
    return Patch((*_spline((points[0], *points, points[-1])), points[-1]), fill, width)


def blob(fill: Color, *points: Point) -> Patch:
    """Return a smooth closed patch through the points."""
    return Patch(_spline((points[-1], *points, points[0], points[1])), fill)


def _spline(points: tuple[Point, ...], steps: int = 6) -> tuple[Point, ...]:
    """Return a Catmull-Rom spline through all points but the first and the last."""
    return tuple(
        (_blend(a[0], b[0], c[0], d[0], i / steps), _blend(a[1], b[1], c[1], d[1], i / steps))
        for a, b, c, d in zip(points, points[1:], points[2:], points[3:], strict=False)
        for i in range(steps)
    )


def _blend(a: float, b: float, c: float, d: float, t: float) -> float:
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


def posed(drawing: Iterable[Patch], turn: float, width: float, height: float) -> Drawing:
    """Stretch the drawing around its center (a negative width mirrors it), turn it clockwise by degrees, fit it to the square."""
    angle = turn * pi / 180
    c, s = cos(angle), sin(angle)

    def transform(point: Point) -> Point:
        x, y = (point[0] - 0.5) * width, (point[1] - 0.5) * height
        return x * c - y * s, x * s + y * c

    return fit(tuple(replace(p, points=tuple(map(transform, p.points))) for p in drawing))


def fit(drawing: Drawing, margin: float = 0.03) -> Drawing:
    """Scale the drawing evenly and center it in the unit square."""
    left, top, right, bottom = extent(drawing)
    scale = (1 - 2 * margin) / max(right - left, bottom - top)
    dx = 0.5 - scale * (left + right) / 2
    dy = 0.5 - scale * (top + bottom) / 2
    return tuple(
        replace(p, points=tuple((x * scale + dx, y * scale + dy) for x, y in p.points), width=p.width * scale)
        for p in drawing
    )


def extent(drawing: Drawing) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of the drawing, line widths included."""
    xs = [x + side * p.width / 2 for p in drawing for x, _ in p.points for side in (-1, 1)]
    ys = [y + side * p.width / 2 for p in drawing for _, y in p.points for side in (-1, 1)]
    return min(xs), min(ys), max(xs), max(ys)
