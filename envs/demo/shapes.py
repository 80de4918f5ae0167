"""A drawing is patches in the unit square, so that one definition serves paintings, sketches and silhouettes.

x grows to the right and y downwards; (0, 0) is the upper left corner of the drawing's frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import cos, pi, radians, sin

Point = tuple[float, float]
Colour = tuple[int, int, int]
Drawing = tuple["Patch", ...]

INK: Colour = (44, 40, 56)
"""The outline of everything that is painted."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One polygon (``width`` 0) or one open line."""

    points: tuple[Point, ...]
    fill: Colour
    width: float = 0.0
    """Thickness of an open line, as a share of the frame."""


@dataclass(frozen=True, slots=True)
class Tints:
    """The colours of one drawing."""

    main: Colour
    second: Colour
    dark: Colour
    light: Colour


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """The colour ``share`` of the way from a to b."""
    return (
        round(a[0] + (b[0] - a[0]) * share),
        round(a[1] + (b[1] - a[1]) * share),
        round(a[2] + (b[2] - a[2]) * share),
    )


def tints(main: Colour, second: Colour) -> Tints:
    return Tints(main, second, mix(main, (30, 20, 50), 0.35), mix(main, (255, 255, 255), 0.5))


def poly(fill: Colour, *points: Point) -> Patch:
    return Patch(points, fill)


def rect(fill: Colour, left: float, top: float, right: float, bottom: float) -> Patch:
    return poly(fill, (left, top), (right, top), (right, bottom), (left, bottom))


def line(fill: Colour, width: float, *points: Point) -> Patch:
    return Patch(points, fill, width)


def arc(cx: float, cy: float, rx: float, ry: float, start: float, stop: float) -> tuple[Point, ...]:
    """Points of an ellipse from angle ``start`` to ``stop`` in degrees, clockwise, 0 pointing right."""
    steps = max(4, round(abs(stop - start) / 12))
    angles = [radians(start + (stop - start) * i / steps) for i in range(steps + 1)]
    return tuple((cx + rx * cos(a), cy + ry * sin(a)) for a in angles)


def oval(fill: Colour, cx: float, cy: float, rx: float, ry: float) -> Patch:
    return Patch(arc(cx, cy, rx, ry, -90, 270)[:-1], fill)


def ring(fill: Colour, width: float, cx: float, cy: float, rx: float, ry: float) -> Patch:
    return Patch(arc(cx, cy, rx, ry, -90, 270), fill, width)


def bow(fill: Colour, width: float, *points: Point) -> Patch:
    """A smooth open line through the points."""
    padded = (points[0], *points, points[-1])
    return Patch((*_spline(padded), points[-1]), fill, width)


def blob(fill: Colour, *points: Point) -> Patch:
    """A smooth closed patch through the points."""
    return Patch(_spline((points[-1], *points, points[0], points[1])), fill)


def _spline(points: tuple[Point, ...], steps: int = 6) -> tuple[Point, ...]:
    """Catmull-Rom through all points but the first and the last."""
    curve = []
    for a, b, c, d in zip(points, points[1:], points[2:], points[3:], strict=False):
        for i in range(steps):
            t = i / steps
            curve.append((_blend(a[0], b[0], c[0], d[0], t), _blend(a[1], b[1], c[1], d[1], t)))
    return tuple(curve)


def _blend(a: float, b: float, c: float, d: float, t: float) -> float:
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


@dataclass(frozen=True, slots=True)
class Pose:
    """The pose of a drawing: turned clockwise by degrees, mirrored, stretched around its centre."""

    turn: float = 0.0
    mirrored: bool = False
    wide: float = 1.0
    high: float = 1.0


def posed(drawing: Iterable[Patch], pose: Pose) -> Drawing:
    """The drawing held that way, shrunk and shifted to fill the frame but for a margin."""
    angle = pose.turn * pi / 180
    c, s = cos(angle), sin(angle)
    sx, sy = (-pose.wide if pose.mirrored else pose.wide), pose.high

    def moved(point: Point) -> Point:
        x, y = (point[0] - 0.5) * sx, (point[1] - 0.5) * sy
        return x * c - y * s, x * s + y * c

    return fitted(tuple(replace(p, points=tuple(map(moved, p.points))) for p in drawing))


def fitted(drawing: Drawing, margin: float = 0.03) -> Drawing:
    """The drawing scaled evenly and centred so that it just fits the unit square."""
    left, top, right, bottom = extent(drawing)
    scale = (1 - 2 * margin) / max(right - left, bottom - top)
    dx = 0.5 - scale * (left + right) / 2
    dy = 0.5 - scale * (top + bottom) / 2
    return tuple(
        replace(p, points=tuple((x * scale + dx, y * scale + dy) for x, y in p.points), width=p.width * scale)
        for p in drawing
    )


def extent(drawing: Drawing) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of what is drawn, line widths included."""
    xs = [x + side * p.width / 2 for p in drawing for x, _ in p.points for side in (-1, 1)]
    ys = [y + side * p.width / 2 for p in drawing for _, y in p.points for side in (-1, 1)]
    return min(xs), min(ys), max(xs), max(ys)
