"""Sizes, colors, markers and file formats of figures.

Colors stay distinct in grayscale, or differ by hatch or marker too; equal figures give equal bytes.
"""

import io
import re
from collections.abc import Iterator
from colorsys import hls_to_rgb, rgb_to_hls
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from orchestrator.report.tables.table import one_line
from sweeps.protocol import ZERO_SHOT

PAGE = 6.75
"""Width in inches of a page in two-column papers; figures are drawn at this, to be included unscaled."""
TALLEST = 9.0
"""Largest height of a figure in inches: the height of a page's text."""
SMALLEST = 7.0
"""Size of the smallest text in points."""
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": SMALLEST,
    "axes.titlesize": SMALLEST,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": SMALLEST,
    "xtick.labelsize": SMALLEST,
    "ytick.labelsize": SMALLEST,
    "legend.fontsize": SMALLEST,
    "figure.labelsize": SMALLEST,
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
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.2,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "proactive-sweep",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "text.parse_math": False,
}
"""Dollar signs in names do not start formulas. SVG holds glyphs as outlines, which look the same everywhere; PDF holds text with
its TrueType font, as publishers require."""
DPI = 200
METADATA = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}
"""File format -> metadata that is left out, so that equal figures give equal bytes."""
INK, GRAY = "#222222", "#8a8a8a"
"""Text and rules; baselines."""
UNFINISHED = 0.4
"""Opacity of unfinished models."""
LONGEST_NAME = 26

ACTIONS = {
    "share_suggestion": ("suggestion", "#14406b", ""),
    "share_right": ("right category", "#0f7f58", "////"),
    "share_wrong": ("wrong category", "#e8893a", "\\\\\\\\"),
    "share_abstention": ("abstention", "#f7dc6f", "||||"),
    "share_unparsable": ("unparsable", "#bdbdbd", "xxxx"),
}
"""Share -> label, color (from dark to light), hatch."""
BEGINNINGS = {
    "asks": ("asks", "#14406b", ""),
    "guessed_at_once": ("guesses at once", "#e8893a", "\\\\\\\\"),
    "gave_up_at_once": ("gives up at once", "#f7dc6f", "||||"),
    "unreadable_at_once": ("unreadable", "#bdbdbd", "xxxx"),
}
"""The same for shares of episodes by their first reply."""
CONDITIONS = {
    ZERO_SHOT: ("#14406b", "o"),
    "hint": ("#e8893a", "o"),
    "history": ("#14406b", "s"),
    "icl-1": ("#0f7f58", "^"),
    "icl-3": ("#b04a8f", "D"),
    "random-proactive": ("#5aa9e6", "v"),
    "reference": ("#0f7f58", "s"),
}
"""Condition -> color, marker."""
SERIES = ("#14406b", "#e8893a", "#0f7f58", "#b04a8f", "#8a6d00", "#5aa9e6")
MARKERS = "os^DvPX*<>"


def series_look(number: int) -> tuple[str, str]:
    """Return color and marker of the ``number``-th series; the first thirty pairs are distinct."""
    return SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save figures in the house style inside the block; settings outside stay unchanged."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]
        yield


def new_figure(height: float) -> Figure:
    """Return an empty figure of a page's width and this height in inches, with a constrained layout."""
    figure = Figure(figsize=(PAGE, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def lay_out(figure: Figure) -> None:
    """Lay out the figure once, so that no file format lays it out again.

    With any layout engine, also "none", matplotlib draws a figure twice to save it.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine(None)


def render(figure: Figure, form: str) -> bytes:
    """Return the figure as ``pdf`` (its fonts embedded), ``svg`` or ``png``, without a date."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format=form, metadata=dict.fromkeys(METADATA[form]), dpi=DPI)
    return buffer.getvalue()


def gray(color: str) -> str:
    """Return the gray of the same luma (Rec. 601)."""
    red, green, blue = to_rgb(color)
    return str(round(0.299 * red + 0.587 * green + 0.114 * blue, 3))


def short_label(name: str) -> str:
    """Return a name as a label: on one line, cut if it is too long."""
    line = one_line(name)
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


GROUND, TEXT = "#1b1e22", "#e4e5e7"
"""Background and text color of a dark page."""
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
"""Color of a figure -> its color on a dark page; those of text and marks have a contrast of 3 or more with ``GROUND``."""
_COLOR = re.compile(rb"((?:fill|stroke)(?:: |=\"))(#[0-9a-f]{6})")
"""A color in a style, or in the attribute that fills the background of a hatch."""


def with_dark_colors(svg: bytes) -> bytes:
    """Return the SVG with variables in place of colors; on a light page it looks the same."""
    colors = sorted({match[2].decode() for match in _COLOR.finditer(svg)})
    light = "".join(f"--c{color[1:]}:{color};" for color in colors)
    dark = "".join(f"--c{color[1:]}:{dark_color(color)};" for color in colors)
    style = (
        f"<style>:root{{fill:#000;{light}}}@media (prefers-color-scheme:dark){{:root{{fill:{TEXT};{dark}}}}}</style>"
    )
    themed = _COLOR.sub(lambda match: match[1] + b"var(--c" + match[2][1:] + b")", svg)
    return re.sub(rb"(<svg\b[^>]*>)", lambda match: match[1] + style.encode(), themed, count=1)


def dark_color(color: str) -> str:
    """Return the color of a dark page for ``color``: that of ``DARK``, else the same hue with mirrored lightness."""
    if color in DARK:
        return DARK[color]
    hue, lightness, saturation = rgb_to_hls(*to_rgb(color))
    return to_hex(hls_to_rgb(hue, 0.12 + 0.78 * (1 - lightness), saturation))
