"""Sizes, colors and markers of figures; nothing here imports matplotlib."""

from typing import Any

from orchestrator.report.tables.table import one_line

FEWEST = 3
"""Fewest models of a figure: with fewer, a table says more in less space."""
SIZES = ("font.size", *(f"{part}.labelsize" for part in ("axes", "xtick", "ytick", "figure")), "legend.fontsize")
STYLE: dict[str, Any] = {
    **dict.fromkeys((*SIZES, "axes.titlesize"), 7.0), **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor"), "white"),
    "font.family": "DejaVu Sans", "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.edgecolor": "#555555",
    "axes.linewidth": 0.6, "axes.axisbelow": True, "axes.grid": True, "axes.grid.axis": "x", "grid.color": "#dddddd",
    "grid.linewidth": 0.5, "xtick.major.size": 2, "ytick.major.size": 0, "hatch.linewidth": 0.6, "legend.frameon": False,
    "legend.handlelength": 1.4, "svg.hashsalt": "proactive-sweep", "svg.fonttype": "path", "pdf.fonttype": 42,
    "text.parse_math": False,
}  # fmt: skip
"""Dollar signs in names start no formulas; PDF holds text with its TrueType font, as publishers require."""
METADATA = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}
"""File format -> metadata that is left out, so that equal figures give equal bytes."""
INK, GRAY, LONGEST_NAME = "#222222", "#8a8a8a", 26
WRONG, ABSTAINED, UNREAD = ("#e8893a", "\\\\\\\\"), ("#f7dc6f", "||||"), ("#bdbdbd", "xxxx")
ACTIONS = {
    "share_suggestion": ("suggestion", "#14406b", ""), "share_right": ("right category", "#0f7f58", "////"),
    "share_wrong": ("wrong category", *WRONG), "share_abstention": ("abstention", *ABSTAINED),
    "share_unparsable": ("unparsable", *UNREAD),
}  # fmt: skip
BEGINNINGS = {
    "asks": ("asks", "#14406b", ""), "guessed_at_once": ("guesses at once", *WRONG),
    "gave_up_at_once": ("gives up at once", *ABSTAINED), "unreadable_at_once": ("unreadable", *UNREAD),
}  # fmt: skip
"""Share -> label, color (distinct in grayscale or by hatch), hatch."""
SERIES, MARKERS = ("#14406b", "#e8893a", "#0f7f58", "#b04a8f", "#8a6d00", "#5aa9e6"), "os^DvPX*<>"


def series_look(number: int) -> tuple[str, str]:
    """Return color and marker of the ``number``-th series; the first thirty pairs are distinct."""
    return SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]


def short_label(name: str) -> str:
    """Return a name as a label: on one line, cut if it is too long."""
    line = one_line(name)
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"
