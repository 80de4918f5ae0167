"""Draws figures for the page, for files and for MLflow; matplotlib, which takes a second to import, is loaded on demand."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection
from colorsys import hls_to_rgb, rgb_to_hls
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.report.figures import FEWEST
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import offered_tables
from orchestrator.storage import safe_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS = {
    "answer": "How episodes begin: zero-shot, and with hints.",
    "conditions": "Change of each condition against zero-shot on the same samples, with paired intervals.",
    "reference": "Accuracy where the model must ask for what it needs, against accuracy on the clear image.",
    "actions": "What the answers were: zero-shot, with hints, and with suggestions that cannot help.",
    "examples": "Change of solved examples against zero-shot on the same samples, with paired intervals.",
    "capacity": "Model size against proactiveness and accuracy.",
}
"""Name of each figure -> its caption."""
SHOWN = ("answer", "conditions")
"""Figures of the page; `report --figures` writes all."""
FORMATS = ("pdf", "svg")
LARGEST_SVG = 400_000
"""Bytes above which the page holds a figure as PNG."""
GROUND, TEXT = "#1b1e22", "#e4e5e7"
"""Background and text color of a dark page."""
DARK = {
    "#ffffff": GROUND, "#000000": TEXT, "#222222": TEXT, "#14406b": "#5b93c9", "#0f7f58": "#36ad80", "#e8893a": "#e08a43",
    "#f7dc6f": "#d9bf52", "#bdbdbd": "#8a8e94", "#b04a8f": "#d278b4", "#5aa9e6": "#8fd0ff", "#8a6d00": "#c7a838",
    "#8a8a8a": "#8f959d", "#666666": "#a3a8af",
}  # fmt: skip
"""Color of a figure -> its color on a dark page; those of text and marks have a contrast of 3 or more with ``GROUND``."""
_COLOR = re.compile(rb"((?:fill|stroke)(?:: |=\"))(#[0-9a-f]{6})")
"""A color in a style, or in the attribute that fills the background of a hatch."""


class FigureImage(NamedTuple):
    """A figure as it is in ``report.html``."""

    kind: str
    """``svg+xml`` or ``png``."""
    content: bytes
    width: int
    """In CSS pixels, like ``height``."""
    height: int

    @property
    def uri(self) -> str:
        return f"data:image/{self.kind};base64,{b64encode(self.content).decode()}"


def draw_figures(run_data: RunData, names: Collection[str] = tuple(CAPTIONS)) -> dict[str, Figure]:
    """Return the figures of these names and of installed packages, without those that have too few models."""
    offered = {table.name: table.figure for table in offered_tables(run_data) if table.figure}
    if not offered and run_data.rows["model"].n_unique() < FEWEST:
        return {}
    from orchestrator.report.figures import plots

    context = plots.FigureContext(run_data)
    functions = {name: draw for name, draw in plots.FIGURES.items() if name in names} | offered
    with plots.house_style():
        drawn = {name: figure for name, draw in functions.items() if (figure := draw(context))}
        for figure in drawn.values():
            plots.lay_out(figure)
    return drawn


def figure_images(run_data: RunData, names: Collection[str] = SHOWN) -> dict[str, FigureImage]:
    """Return the images of these figures for the page."""
    return {name: _image(figure) for name, figure in draw_figures(run_data, names).items()}


def _image(figure: Figure) -> FigureImage:
    from orchestrator.report.figures.plots import render

    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    content = render(figure, "svg")
    if len(content) > LARGEST_SVG:
        return FigureImage("png", render(figure, "png"), width, height)
    return FigureImage("svg+xml", with_dark_colors(content), width, height)


def write_figures(run_data: RunData) -> list[Path]:
    """Write every figure as ``figures/NAME.pdf`` and ``.svg``, as wide as a page (6.75 in), and return the sorted paths."""
    from orchestrator.report.figures.plots import render

    folder = run_data.folder / "figures"
    folder.mkdir(exist_ok=True)
    drawn = {f"{name}.{form}": (figure, form) for name, figure in draw_figures(run_data).items() for form in FORMATS}
    for name, (figure, form) in drawn.items():
        safe_write.write(folder / name, render(figure, form))
    return sorted(folder / name for name in drawn)


def with_dark_colors(svg: bytes) -> bytes:
    """Return the SVG with variables in place of colors; on a light page it looks the same."""
    colors = sorted({match[2].decode() for match in _COLOR.finditer(svg)})
    light = "".join(f"--c{color[1:]}:{color};" for color in colors)
    dark = "".join(f"--c{color[1:]}:{dark_color(color)};" for color in colors)
    rules = f":root{{fill:#000;{light}}}@media (prefers-color-scheme:dark){{:root{{fill:{TEXT};{dark}}}}}"
    themed = _COLOR.sub(lambda match: match[1] + b"var(--c" + match[2][1:] + b")", svg)
    return re.sub(rb"(<svg\b[^>]*>)", lambda match: match[1] + f"<style>{rules}</style>".encode(), themed, count=1)


def dark_color(color: str) -> str:
    """Return the color of a dark page for ``color``: that of ``DARK``, else the same hue with mirrored lightness."""
    if color in DARK:
        return DARK[color]
    hue, lightness, saturation = rgb_to_hls(*(int(color[n : n + 2], 16) / 255 for n in (1, 3, 5)))
    return "#" + "".join(
        f"{round(255 * part):02x}" for part in hls_to_rgb(hue, 0.12 + 0.78 * (1 - lightness), saturation)
    )
