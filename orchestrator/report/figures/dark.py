"""Gives an SVG a second set of colors, which a page on a dark ground shows (``prefers-color-scheme``)."""

import re
from colorsys import hls_to_rgb, rgb_to_hls

GROUND, TEXT = "#1b1e22", "#e4e5e7"
"""Color of the ground and of text in the dark."""
DARK = {
    "#ffffff": GROUND,
    "#000000": TEXT,
    "#222222": TEXT,
    "#14406b": "#5b93c9",
    "#0f7f58": "#36ad80",
    "#e8893a": "#e08a43",
    "#f7dc6f": "#d9bf52",
    "#bdbdbd": "#8a8e94",
    "#b04a8f": "#d278b4",
    "#5aa9e6": "#8fd0ff",
    "#8a6d00": "#c7a838",
    "#8a8a8a": "#8f959d",
    "#666666": "#a3a8af",
}
"""Color of a figure -> its color in the dark; those of text and marks have a contrast of 3 or more with ``GROUND``."""
_COLOR = re.compile(rb"((?:fill|stroke)(?:: |=\"))(#[0-9a-f]{6})")
"""A color of a style, or of the ground of a hatch, which is an attribute."""


def with_dark_colors(svg: bytes) -> bytes:
    """Return the SVG with variables in place of colors; without a dark page it looks the same."""
    colors = sorted({match[2].decode() for match in _COLOR.finditer(svg)})
    light = "".join(f"--c{color[1:]}:{color};" for color in colors)
    dark = "".join(f"--c{color[1:]}:{dark_color(color)};" for color in colors)
    style = (
        f"<style>:root{{fill:#000;{light}}}@media (prefers-color-scheme:dark){{:root{{fill:{TEXT};{dark}}}}}</style>"
    )
    themed = _COLOR.sub(lambda match: match[1] + b"var(--c" + match[2][1:] + b")", svg)
    return re.sub(rb"(<svg\b[^>]*>)", lambda match: match[1] + style.encode(), themed, count=1)


def dark_color(color: str) -> str:
    """Return the color that stands for ``color`` in the dark: its own, or that of mirrored lightness."""
    if color in DARK:
        return DARK[color]
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    hue, lightness, saturation = rgb_to_hls(red, green, blue)
    mirrored = hls_to_rgb(hue, 0.12 + 0.78 * (1 - lightness), saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in mirrored)
