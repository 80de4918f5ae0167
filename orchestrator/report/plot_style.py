"""Colours, markers and saving of figures.

Every colour also differs in grey or by hatch and marker; equal figures are equal bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from orchestrator.report.escaping import one_line
from orchestrator.storage import atomic_write

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "xtick.major.size": 2,
    "ytick.major.size": 0,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "proactive-sweep",
    "svg.fonttype": "path",
    "text.parse_math": False,
}
"""Names are data: no dollar sign of theirs is a formula. Glyphs are drawn as paths, so a figure looks the same everywhere."""
DPI = 160
INK, FAINT = "#222222", "#b5b5b5"
"""What is finished, and what is not or only stands behind."""
LONGEST_NAME = 26

ACTIONS = {
    "share_suggestion": ("suggestion", "#14406b", ""),
    "share_right": ("right category", "#2a9d72", "////"),
    "share_wrong": ("wrong category", "#e8893a", "\\\\\\\\"),
    "share_abstention": ("abstention", "#f7dc6f", "...."),
    "share_unparsable": ("unparsable", "#bdbdbd", "xxxx"),
}
"""Share -> label, colour (from dark to light), hatch."""
CONDITIONS = {
    "zero-shot": ("#222222", "|"),
    "hint": ("#e8893a", "o"),
    "history": ("#14406b", "s"),
    "icl-1": ("#2a9d72", "^"),
    "icl-3": ("#b04a8f", "D"),
    "random-proactive": ("#8a8a8a", "v"),
    "reference": ("#2a9d72", "s"),
}
"""Condition -> colour, marker."""
SERIES = ("#14406b", "#e8893a", "#2a9d72", "#b04a8f", "#8a6d00", "#5aa9e6")
MARKERS = "os^DvPX*<>"


def series(number: int) -> tuple[str, str]:
    """Colour and marker of the ``number``-th of many; no pair comes twice among the first thirty."""
    return SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]


@contextmanager
def house() -> Iterator[None]:
    """Everything drawn or saved inside has the house style; nothing outside is touched."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        for name, value in STYLE.items():
            matplotlib.rcParams[name] = value  # type: ignore[index]
        yield


def canvas(width: float, height: float) -> Figure:
    """An empty figure of so many inches, laid out by itself."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def svg(figure: Figure) -> bytes:
    """The figure as SVG without a date."""
    with house():
        held = io.BytesIO()
        figure.savefig(held, format="svg", metadata={"Date": None, "Creator": None})
    return held.getvalue()


def png(figure: Figure, dpi: int = DPI) -> bytes:
    """The figure as PNG without a date."""
    with house():
        held = io.BytesIO()
        figure.savefig(held, format="png", dpi=dpi, metadata={"Software": None})
    return held.getvalue()


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """``name.svg`` and ``name.png``."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path, content in zip(paths, (png(figure), svg(figure)), strict=True):
        atomic_write.write(path, content)
    return paths


def short(name: str) -> str:
    """A name as a label: one line, and no longer than a label can be."""
    line = one_line(name)
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"
