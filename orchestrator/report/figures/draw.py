"""The figures of a report, drawn with matplotlib at the width of a page; the page shows two, `report --figures` writes all.

Every figure is a function of the run data; with fewer than three models it is left out, because a table says the same.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection
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
"""Figures of the page."""
FORMATS = ("pdf", "svg")
LARGEST_SVG = 400_000
"""Bytes above which the page holds a figure as PNG."""


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


def draw_figures(
    run_data: RunData, names: Collection[str] = tuple(CAPTIONS), baselines: bool = True
) -> dict[str, Figure]:
    """Return the figures of these names, without those that have too few models; draw baselines too if ``baselines``."""
    offered = {table.name: table.figure for table in offered_tables(run_data) if table.figure}
    models = set(run_data.rows["model"])
    if not offered and len(models if baselines else models - run_data.baselines) < FEWEST:
        return {}
    from orchestrator.report.figures import figures, style  # matplotlib takes a second to import
    from orchestrator.report.figures.parts import FigureContext

    context = FigureContext(run_data, baselines)
    functions = {
        name: draw for name, draw in {**figures.FIGURES, **offered}.items() if name in names or name in offered
    }
    with style.house_style():
        drawn = {name: figure for name, draw in functions.items() if (figure := draw(context))}
        for figure in drawn.values():
            style.lay_out(figure)
    return drawn


def figure_images(run_data: RunData, names: Collection[str] = SHOWN) -> dict[str, FigureImage]:
    """Return the images of these figures for the page."""
    return {name: _image(figure) for name, figure in draw_figures(run_data, names).items()}


def _image(figure: Figure) -> FigureImage:
    from orchestrator.report.figures import style

    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    content = style.render(figure, "svg")
    if len(content) > LARGEST_SVG:
        return FigureImage("png", style.render(figure, "png"), width, height)
    return FigureImage("svg+xml", style.with_dark_colors(content), width, height)


def write_figures(run_data: RunData, baselines: bool = True) -> list[Path]:
    """Write every figure as ``figures/NAME.pdf`` and ``.svg``, as wide as a page (6.75 in), and return the sorted paths."""
    from orchestrator.report.figures import style

    folder = run_data.folder / "figures"
    folder.mkdir(exist_ok=True)
    paths = []
    for name, figure in draw_figures(run_data, baselines=baselines).items():
        for form in FORMATS:
            paths.append(folder / f"{name}.{form}")
            safe_write.write(paths[-1], style.render(figure, form))
    return sorted(paths)
