"""Plants, animals and a star: each function draws one from its tints alone, so equal tints give equal drawings."""

from math import cos, radians, sin

from proactive_demo.drawing.shapes import Drawing, Patch, Tints, arc, blob, bow, line, oval, poly, rect

LEAF = (92, 158, 74)
BARK = (140, 94, 60)
BLACK = (44, 40, 52)
WHITE = (252, 250, 244)


def eye(x: float, y: float, size: float = 0.035) -> tuple[Patch, Patch]:
    return oval(WHITE, x, y, size, size), oval(BLACK, x, y, size * 0.5, size * 0.5)


def apple(t: Tints) -> Drawing:
    flesh = blob(
        t.main, (0.5, 0.32), (0.68, 0.26), (0.88, 0.38), (0.88, 0.64), (0.72, 0.9), (0.58, 0.94), (0.5, 0.91),
        (0.42, 0.94), (0.28, 0.9), (0.12, 0.64), (0.12, 0.38), (0.32, 0.26),
    )  # fmt: skip
    leaf = blob(LEAF, (0.53, 0.2), (0.64, 0.08), (0.82, 0.06), (0.72, 0.2))
    stalk = bow(BARK, 0.045, (0.5, 0.34), (0.49, 0.2), (0.43, 0.08))
    return (flesh, stalk, leaf, oval(t.light, 0.28, 0.46, 0.06, 0.09))


def banana(t: Tints) -> Drawing:
    peel = blob(
        t.main, (0.08, 0.24), (0.17, 0.24), (0.3, 0.52), (0.56, 0.66), (0.9, 0.6), (0.95, 0.68), (0.76, 0.84),
        (0.46, 0.86), (0.2, 0.68), (0.08, 0.4),
    )  # fmt: skip
    stem = poly((112, 84, 40), (0.06, 0.13), (0.14, 0.12), (0.17, 0.27), (0.08, 0.28))
    ridge = bow(t.dark, 0.02, (0.14, 0.32), (0.25, 0.58), (0.5, 0.75), (0.86, 0.68))
    return (peel, stem, ridge, oval((112, 84, 40), 0.93, 0.65, 0.03, 0.04))


def butterfly(t: Tints) -> Drawing:
    wings = [
        blob(t.main, (0.5, 0.44), (0.5 + s * 0.2, 0.1), (0.5 + s * 0.46, 0.08), (0.5 + s * 0.44, 0.42), (0.5 + s * 0.2, 0.54))
        for s in (-1, 1)
    ]  # fmt: skip
    lower = [
        blob(t.second, (0.5, 0.52), (0.5 + s * 0.26, 0.54), (0.5 + s * 0.36, 0.74), (0.5 + s * 0.2, 0.9), (0.5 + s * 0.06, 0.7))
        for s in (-1, 1)
    ]  # fmt: skip
    dots = [oval(t.light, 0.5 + s * 0.31, 0.25, 0.07, 0.07) for s in (-1, 1)]
    feelers = [bow(BLACK, 0.02, (0.5, 0.28), (0.5 + s * 0.05, 0.14), (0.5 + s * 0.12, 0.08)) for s in (-1, 1)]
    return (*lower, *wings, *dots, *feelers, oval(BLACK, 0.5, 0.52, 0.04, 0.26))


def cactus(t: Tints) -> Drawing:
    green = t.main
    arms = [
        bow(green, 0.14, (0.5, 0.58), (0.28, 0.56), (0.22, 0.46), (0.22, 0.32)),
        bow(green, 0.14, (0.5, 0.46), (0.72, 0.46), (0.79, 0.36), (0.79, 0.22)),
    ]
    trunk = poly(green, *arc(0.5, 0.14, 0.12, 0.12, 180, 360), (0.62, 0.78), (0.38, 0.78))
    pot = poly((206, 112, 72), (0.27, 0.74), (0.73, 0.74), (0.66, 0.98), (0.34, 0.98))
    spines = [line(t.light, 0.015, (0.5, y), (0.5, y + 0.07)) for y in (0.16, 0.34, 0.52)]
    rim, bloom = rect((222, 132, 90), 0.24, 0.7, 0.76, 0.79), oval((240, 120, 150), 0.5, 0.03, 0.06, 0.05)
    return (*arms, trunk, *spines, pot, rim, bloom)


def cat(t: Tints) -> Drawing:
    ears = [poly(t.main, (0.5 + s * 0.36, 0.06), (0.5 + s * 0.38, 0.46), (0.5 + s * 0.08, 0.26)) for s in (-1, 1)]
    inner = [
        poly((240, 170, 170), (0.5 + s * 0.31, 0.16), (0.5 + s * 0.32, 0.36), (0.5 + s * 0.16, 0.28)) for s in (-1, 1)
    ]
    face = oval(t.main, 0.5, 0.56, 0.4, 0.36)
    eyes = [
        p for x in (0.35, 0.65) for p in (oval((226, 240, 130), x, 0.5, 0.075, 0.08), oval(BLACK, x, 0.5, 0.025, 0.07))
    ]
    whiskers = [
        line(BLACK, 0.014, (0.5 + s * 0.14, y), (0.5 + s * 0.47, y + d))
        for s in (-1, 1)
        for y, d in ((0.68, -0.05), (0.72, 0.04))
    ]
    nose = poly((226, 110, 120), (0.45, 0.62), (0.55, 0.62), (0.5, 0.68))
    mouth = [bow(BLACK, 0.018, (0.5, 0.68), (0.5 + s * 0.05, 0.76), (0.5 + s * 0.12, 0.74)) for s in (-1, 1)]
    return (*ears, *inner, face, *eyes, *mouth, nose, *whiskers)


def duck(t: Tints) -> Drawing:
    body = blob(
        t.main, (0.06, 0.52), (0.24, 0.56), (0.46, 0.52), (0.66, 0.5), (0.84, 0.64), (0.78, 0.84), (0.5, 0.92),
        (0.2, 0.86), (0.06, 0.68),
    )  # fmt: skip
    head = oval(t.main, 0.66, 0.32, 0.19, 0.19)
    beak = blob((244, 140, 40), (0.8, 0.3), (0.98, 0.34), (0.96, 0.42), (0.8, 0.42))
    wing = blob(t.dark, (0.22, 0.64), (0.44, 0.6), (0.6, 0.68), (0.44, 0.8), (0.28, 0.77))
    return (body, head, beak, wing, *eye(0.71, 0.27, 0.045))


def fish(t: Tints) -> Drawing:
    tail = poly(t.second, (0.3, 0.5), (0.02, 0.24), (0.09, 0.5), (0.02, 0.76))
    fins = [
        blob(t.second, (0.46, 0.28), (0.54, 0.1), (0.74, 0.16), (0.7, 0.3)),
        blob(t.second, (0.5, 0.72), (0.5, 0.88), (0.64, 0.86), (0.66, 0.7)),
    ]
    body = blob(
        t.main, (0.2, 0.5), (0.38, 0.31), (0.62, 0.24), (0.86, 0.34), (0.98, 0.51), (0.86, 0.66), (0.62, 0.76),
        (0.38, 0.69),
    )  # fmt: skip
    stripes = [bow(t.light, 0.045, (x, 0.33), (x + 0.04, 0.5), (x, 0.67)) for x in (0.44, 0.58)]
    return (tail, *fins, body, *stripes, *eye(0.83, 0.44, 0.05))


def flower(t: Tints) -> Drawing:
    angles = [radians(60 * i) for i in range(6)]
    petals = [oval(t.main, 0.5 + 0.18 * cos(a), 0.28 + 0.18 * sin(a), 0.115, 0.115) for a in angles]
    leaves = [
        blob(LEAF, (0.5, 0.86), (0.5 + s * 0.14, 0.7), (0.5 + s * 0.34, 0.68), (0.5 + s * 0.22, 0.84)) for s in (-1, 1)
    ]
    return (line(LEAF, 0.05, (0.5, 0.34), (0.5, 0.98)), *leaves, *petals, oval((250, 206, 80), 0.5, 0.28, 0.12, 0.12))


def mushroom(t: Tints) -> Drawing:
    stalk = blob(
        (246, 234, 210), (0.38, 0.48), (0.62, 0.48), (0.62, 0.76), (0.68, 0.94), (0.5, 0.97), (0.32, 0.94), (0.38, 0.76)
    )
    cap = poly(t.main, *arc(0.5, 0.52, 0.46, 0.46, 180, 360), *arc(0.5, 0.52, 0.46, 0.08, 0, 180))
    dots = [
        oval(WHITE, x, y, r, r)
        for x, y, r in ((0.3, 0.34, 0.075), (0.54, 0.2, 0.08), (0.72, 0.38, 0.07), (0.48, 0.44, 0.05))
    ]
    return (stalk, cap, *dots)


def snail(t: Tints) -> Drawing:
    skin = (222, 190, 130)
    foot = blob(
        skin, (0.04, 0.9), (0.2, 0.8), (0.6, 0.8), (0.76, 0.72), (0.78, 0.52), (0.88, 0.46), (0.96, 0.56),
        (0.92, 0.8), (0.8, 0.93), (0.3, 0.95),
    )  # fmt: skip
    horns = [line(skin, 0.03, (0.86, 0.5), (0.84, 0.3)), line(skin, 0.03, (0.91, 0.5), (0.97, 0.32))]
    tips = [oval(BLACK, 0.84, 0.29, 0.025, 0.025), oval(BLACK, 0.97, 0.31, 0.025, 0.025)]
    turns = [
        (0.42 + (0.26 - 0.0017 * a / 5) * cos(radians(a)), 0.55 + (0.26 - 0.0017 * a / 5) * sin(radians(a)))
        for a in range(90, 690, 30)
    ]
    return (foot, *horns, *tips, oval(t.main, 0.42, 0.55, 0.32, 0.31), bow(t.light, 0.04, *turns))


def star(t: Tints) -> Drawing:
    corners = [(0.5 if i % 2 == 0 else 0.22, radians(36 * i - 90)) for i in range(10)]
    points = [(0.5 + r * cos(a), 0.52 + r * sin(a)) for r, a in corners]
    cheeks = [oval(t.second, x, 0.62, 0.045, 0.035) for x in (0.36, 0.64)]
    smile = bow(BLACK, 0.022, (0.43, 0.62), (0.5, 0.67), (0.57, 0.62))
    return (poly(t.main, *points), *cheeks, *[oval(BLACK, x, 0.52, 0.03, 0.04) for x in (0.42, 0.58)], smile)


def tree(t: Tints) -> Drawing:
    tiers = [
        poly(t.main, (0.5, y), (0.5 + w, y + 0.34), (0.5 - w, y + 0.34))
        for y, w in ((0.5, 0.4), (0.27, 0.32), (0.02, 0.24))
    ]
    balls = [
        oval(t.second, x, y, 0.04, 0.04)
        for x, y in ((0.44, 0.28), (0.6, 0.5), (0.36, 0.55), (0.52, 0.74), (0.72, 0.78), (0.28, 0.78))
    ]
    return (rect(BARK, 0.43, 0.8, 0.57, 0.98), *tiers, *balls)
