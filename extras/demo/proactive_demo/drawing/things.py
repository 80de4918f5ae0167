"""Man-made objects in the unit square: each function draws one from its tints alone."""

from proactive_demo.drawing.shapes import Drawing, Tints, arc, blob, bow, line, oval, poly, rect, ring

WOOD = (166, 112, 66)
STEEL = (196, 204, 212)
GLASS = (190, 226, 240)
BLACK = (52, 50, 60)
WHITE = (250, 248, 240)


def anchor(t: Tints) -> Drawing:
    arms = bow(t.main, 0.09, (0.14, 0.58), (0.2, 0.78), (0.5, 0.93), (0.8, 0.78), (0.86, 0.58))
    flukes = [poly(t.main, (x, 0.48), (x - 0.11, 0.66), (x + 0.11, 0.66)) for x in (0.14, 0.86)]
    shank, stock = rect(t.main, 0.46, 0.22, 0.54, 0.92), rect(t.main, 0.28, 0.28, 0.72, 0.36)
    return (ring(t.main, 0.06, 0.5, 0.14, 0.09, 0.09), shank, stock, arms, *flukes)


def bicycle(t: Tints) -> Drawing:
    wheels = [ring(BLACK, 0.035, x, 0.66, 0.19, 0.19) for x in (0.22, 0.78)]
    hubs = [oval(STEEL, x, 0.66, 0.03, 0.03) for x in (0.22, 0.78)]
    frame = [
        line(t.main, 0.04, (0.22, 0.66), (0.38, 0.38), (0.66, 0.38), (0.47, 0.66), (0.22, 0.66)),
        line(t.main, 0.04, (0.36, 0.32), (0.47, 0.66)),
        line(t.main, 0.04, (0.63, 0.27), (0.78, 0.66)),
    ]
    bars = bow(BLACK, 0.04, (0.54, 0.24), (0.63, 0.25), (0.72, 0.27), (0.73, 0.33))
    return (*wheels, *frame, *hubs, bars, oval(BLACK, 0.35, 0.3, 0.09, 0.03), oval(STEEL, 0.47, 0.66, 0.05, 0.05))


def car(t: Tints) -> Drawing:
    body = poly(
        t.main, (0.03, 0.72), (0.03, 0.54), (0.2, 0.48), (0.32, 0.3), (0.68, 0.3), (0.82, 0.48), (0.97, 0.54),
        (0.97, 0.72),
    )  # fmt: skip
    windows = [
        poly(GLASS, (0.27, 0.48), (0.36, 0.35), (0.48, 0.35), (0.48, 0.48)),
        poly(GLASS, (0.53, 0.48), (0.53, 0.35), (0.65, 0.35), (0.75, 0.48)),
    ]
    wheels = [p for x in (0.25, 0.76) for p in (oval(BLACK, x, 0.72, 0.115, 0.115), oval(STEEL, x, 0.72, 0.05, 0.05))]
    return (body, *windows, oval((255, 226, 120), 0.93, 0.59, 0.035, 0.035), *wheels)


def chair(t: Tints) -> Drawing:
    legs = [
        poly(WOOD, (x, 0.6), (x + 0.07, 0.6), (x + d + 0.06, 0.97), (x + d, 0.97))
        for x, d in ((0.23, -0.04), (0.68, 0.05))
    ]
    back = [rect(WOOD, x, 0.05, x + 0.07, 0.54) for x in (0.25, 0.68)]
    slats = [rect(t.main, 0.25, y, 0.75, y + 0.1) for y in (0.08, 0.24)]
    return (*legs, *back, *slats, poly(t.main, (0.24, 0.5), (0.76, 0.5), (0.84, 0.63), (0.16, 0.63)))


def crown(t: Tints) -> Drawing:
    gold = (247, 199, 70)
    body = poly(gold, (0.1, 0.8), (0.04, 0.3), (0.27, 0.52), (0.5, 0.16), (0.73, 0.52), (0.96, 0.3), (0.9, 0.8))
    tips = [oval(t.main, x, y, 0.05, 0.05) for x, y in ((0.05, 0.28), (0.5, 0.13), (0.95, 0.28))]
    gems = [oval(t.second if i % 2 else t.main, 0.2 + 0.15 * i, 0.74, 0.04, 0.04) for i in range(5)]
    return (body, rect((228, 168, 50), 0.1, 0.67, 0.9, 0.81), *tips, *gems)


def glasses(t: Tints) -> Drawing:
    lenses = [
        p for x in (0.25, 0.75) for p in (oval(GLASS, x, 0.52, 0.19, 0.19), ring(t.main, 0.06, x, 0.52, 0.19, 0.19))
    ]
    bridge = bow(t.main, 0.06, (0.43, 0.48), (0.5, 0.43), (0.57, 0.48))
    ears = [
        bow(t.main, 0.055, (0.07, 0.47), (0.03, 0.36), (0.1, 0.27)),
        bow(t.main, 0.055, (0.93, 0.47), (0.97, 0.36), (0.9, 0.27)),
    ]
    shine = [line(WHITE, 0.03, (x - 0.09, 0.5), (x + 0.02, 0.4)) for x in (0.25, 0.75)]
    return (*ears, *lenses, bridge, *shine)


def guitar(t: Tints) -> Drawing:
    body = blob(
        t.main, (0.5, 0.46), (0.66, 0.5), (0.65, 0.63), (0.75, 0.78), (0.68, 0.94), (0.5, 0.98), (0.32, 0.94),
        (0.25, 0.78), (0.35, 0.63), (0.34, 0.5),
    )  # fmt: skip
    neck = rect(WOOD, 0.465, 0.13, 0.535, 0.6)
    head = poly((120, 78, 44), (0.44, 0.01), (0.56, 0.01), (0.54, 0.15), (0.46, 0.15))
    strings = [line(WHITE, 0.008, (x, 0.05), (x, 0.85)) for x in (0.485, 0.515)]
    return (body, neck, head, oval(BLACK, 0.5, 0.68, 0.08, 0.08), rect(BLACK, 0.41, 0.83, 0.59, 0.87), *strings)


def hammer(t: Tints) -> Drawing:
    head = poly(STEEL, (0.2, 0.08), (0.62, 0.08), (0.84, 0.14), (0.92, 0.3), (0.76, 0.25), (0.6, 0.28), (0.2, 0.28))
    face, grip = rect((150, 158, 168), 0.12, 0.05, 0.24, 0.31), rect(BLACK, 0.39, 0.72, 0.53, 0.97)
    return (rect(t.main, 0.4, 0.2, 0.52, 0.97), head, face, grip)


def balloon(t: Tints) -> Drawing:
    bag = blob(
        t.main, (0.5, 0.02), (0.77, 0.1), (0.86, 0.32), (0.74, 0.55), (0.6, 0.71), (0.4, 0.71), (0.26, 0.55),
        (0.14, 0.32), (0.23, 0.1),
    )  # fmt: skip
    gore = blob(t.second, (0.5, 0.03), (0.6, 0.14), (0.64, 0.34), (0.56, 0.7), (0.44, 0.7), (0.36, 0.34), (0.4, 0.14))
    ropes = [line(BLACK, 0.018, (a, 0.7), (b, 0.86)) for a, b in ((0.41, 0.43), (0.59, 0.57))]
    return (bag, gore, *ropes, rect(WOOD, 0.4, 0.84, 0.6, 0.98), rect((130, 84, 48), 0.385, 0.82, 0.615, 0.87))


def house(t: Tints) -> Drawing:
    chimney = rect((150, 92, 80), 0.68, 0.1, 0.79, 0.36)
    roof = poly(t.main, (0.5, 0.06), (0.98, 0.48), (0.02, 0.48))
    panes = [
        p
        for x in (0.18, 0.66)
        for p in (rect(GLASS, x, 0.58, x + 0.17, 0.75), line(WHITE, 0.015, (x + 0.085, 0.58), (x + 0.085, 0.75)))
    ]
    front, door = rect((246, 230, 196), 0.11, 0.46, 0.89, 0.96), rect(t.second, 0.42, 0.62, 0.58, 0.96)
    return (chimney, front, roof, door, *panes)


def ice_cream(t: Tints) -> Drawing:
    cone = poly((226, 170, 100), (0.26, 0.46), (0.74, 0.46), (0.5, 0.99))
    waffle = [
        line((180, 124, 64), 0.015, (top, 0.47), end)
        for top, end in ((0.36, (0.56, 0.85)), (0.56, (0.64, 0.66)), (0.64, (0.44, 0.85)), (0.44, (0.36, 0.66)))
    ]
    scoops = [
        oval(tint, x, y, 0.18, 0.17)
        for tint, x, y in ((t.second, 0.37, 0.36), (t.main, 0.63, 0.36), (t.light, 0.5, 0.2))
    ]
    return (cone, *waffle, *scoops, oval((214, 50, 60), 0.5, 0.04, 0.05, 0.05))


def key(t: Tints) -> Drawing:
    teeth = [rect(t.main, x, 0.5, x + 0.07, y) for x, y in ((0.72, 0.68), (0.87, 0.72))]
    return (*teeth, rect(t.main, 0.38, 0.45, 0.97, 0.55), ring(t.main, 0.1, 0.22, 0.5, 0.16, 0.16))


def ladder(t: Tints) -> Drawing:
    rungs = [rect(t.light, 0.34, y, 0.66, y + 0.05) for y in (0.1, 0.26, 0.42, 0.58, 0.74)]
    return (
        *rungs,
        poly(t.main, (0.31, 0.01), (0.38, 0.01), (0.34, 0.98), (0.26, 0.98)),
        poly(t.main, (0.62, 0.01), (0.69, 0.01), (0.74, 0.98), (0.66, 0.98)),
    )


def lamp(t: Tints) -> Drawing:
    shade = poly(t.main, (0.34, 0.04), (0.66, 0.04), (0.86, 0.46), (0.14, 0.46))
    stripe = poly(t.light, (0.45, 0.04), (0.55, 0.04), (0.6, 0.46), (0.4, 0.46))
    base = blob(t.second, (0.5, 0.86), (0.7, 0.9), (0.72, 0.97), (0.5, 0.98), (0.28, 0.97), (0.3, 0.9))
    return (rect(WOOD, 0.46, 0.44, 0.54, 0.9), base, shade, stripe)


def mug(t: Tints) -> Drawing:
    handle = bow(t.main, 0.08, (0.68, 0.36), (0.9, 0.38), (0.92, 0.6), (0.68, 0.72))
    body = poly(t.main, (0.12, 0.22), (0.72, 0.22), (0.69, 0.86), *arc(0.42, 0.86, 0.27, 0.06, 0, 180), (0.15, 0.86))
    steam = [bow(WHITE, 0.03, (x, 0.14), (x + 0.04, 0.09), (x - 0.02, 0.04), (x + 0.02, 0.0)) for x in (0.32, 0.52)]
    return (*steam, handle, body, oval((96, 60, 40), 0.42, 0.22, 0.3, 0.065), oval(t.second, 0.42, 0.58, 0.11, 0.11))


def rocket(t: Tints) -> Drawing:
    flame = blob((250, 160, 50), (0.5, 0.74), (0.61, 0.82), (0.5, 0.99), (0.39, 0.82))
    fins = [poly(t.main, (0.5 + s * 0.13, 0.52), (0.5 + s * 0.34, 0.84), (0.5 + s * 0.11, 0.76)) for s in (-1, 1)]
    hull = blob(WHITE, (0.5, 0.01), (0.63, 0.2), (0.67, 0.45), (0.61, 0.77), (0.39, 0.77), (0.33, 0.45), (0.37, 0.2))
    nose = blob(t.main, (0.5, 0.01), (0.6, 0.12), (0.635, 0.22), (0.5, 0.24), (0.365, 0.22), (0.4, 0.12))
    return (flame, *fins, hull, nose, oval(t.second, 0.5, 0.41, 0.09, 0.09), oval(GLASS, 0.5, 0.41, 0.055, 0.055))


def sailboat(t: Tints) -> Drawing:
    hull = poly(WOOD, (0.08, 0.72), (0.94, 0.72), (0.78, 0.94), (0.24, 0.94))
    sails = [
        poly(t.main, (0.53, 0.08), (0.53, 0.66), (0.93, 0.66)),
        poly(t.light, (0.45, 0.16), (0.45, 0.66), (0.12, 0.66)),
    ]
    return (rect((120, 78, 44), 0.47, 0.03, 0.51, 0.74), *sails, hull, rect(WHITE, 0.1, 0.72, 0.92, 0.77))


def scissors(t: Tints) -> Drawing:
    blades = [
        poly(STEEL, (0.3, 0.03), (0.36, 0.02), (0.57, 0.55), (0.49, 0.6)),
        poly(STEEL, (0.7, 0.03), (0.64, 0.02), (0.43, 0.55), (0.51, 0.6)),
    ]
    loops = [ring(t.main, 0.075, x, 0.8, 0.12, 0.15) for x in (0.32, 0.68)]
    shanks = [line(t.main, 0.08, (0.53, 0.55), (0.4, 0.68)), line(t.main, 0.08, (0.47, 0.55), (0.6, 0.68))]
    return (*blades, *shanks, *loops, oval(BLACK, 0.5, 0.52, 0.03, 0.03))


def teapot(t: Tints) -> Drawing:
    spout = poly(t.main, (0.66, 0.74), (0.68, 0.54), (0.8, 0.42), (0.9, 0.26), (0.99, 0.3), (0.9, 0.54))
    handle = bow(t.main, 0.07, (0.26, 0.42), (0.06, 0.4), (0.06, 0.66), (0.28, 0.74))
    lid = poly(t.second, *arc(0.47, 0.36, 0.2, 0.12, 180, 360))
    dots = [oval(t.light, x, y, 0.045, 0.045) for x, y in ((0.35, 0.52), (0.5, 0.63), (0.6, 0.5))]
    return (spout, handle, oval(t.main, 0.47, 0.6, 0.29, 0.25), lid, oval(t.main, 0.47, 0.22, 0.05, 0.05), *dots)


def umbrella(t: Tints) -> Drawing:
    scallops = [p for i in range(4) for p in reversed(arc(0.14 + 0.24 * i, 0.5, 0.12, 0.07, 180, 360))][::-1]
    shade = poly(t.main, *arc(0.5, 0.5, 0.48, 0.44, 0, -180), *scallops)
    gore = poly(t.second, *arc(0.5, 0.48, 0.24, 0.42, 0, -180), *arc(0.5, 0.49, 0.24, 0.06, 180, 360))
    stick = bow(WOOD, 0.045, (0.5, 0.42), (0.5, 0.7), (0.5, 0.88), (0.57, 0.96), (0.66, 0.9), (0.66, 0.85))
    return (line(WOOD, 0.03, (0.5, 0.0), (0.5, 0.1)), stick, shade, gore)
