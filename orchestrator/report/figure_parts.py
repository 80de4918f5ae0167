"""What the figures share: which models are rows and in which order, points with intervals, legends.

Models stand above baselines, baselines are grey, and what is unfinished is pale and says how far it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath

from orchestrator.report import plot_style
from orchestrator.report.figure_numbers import Numbers
from orchestrator.report.grid_parts import ordered
from orchestrator.report.plot_style import GREY, INK, UNFINISHED

Row = Mapping[str, Any]
Handle = Line2D | Patch
FEWEST = 3
"""Models below which there is no figure: a table says more in less space."""
HEAD = 0.6
"""Inches of a row of panels beside its models: title, ticks and the label under them."""
LEGEND_LINE, LEGEND_MARK = 0.17, 26.0
"""Inches of a legend's line; points beside a label: its mark and the space around both."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A run as it is drawn: at which width, and with or without baselines."""

    numbers: Numbers
    width: float = plot_style.PAGE
    baselines: bool = True

    @property
    def page(self) -> bool:
        return self.width > plot_style.COLUMN

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of multiple choice that are drawn."""
        frame = frame.filter(protocol="mcqa")
        return frame if self.baselines else frame.filter(~pl.col("model").is_in(list(self.numbers.baselines)))

    def averages(self, conditions: Sequence[str]) -> pl.DataFrame:
        """Averages over scenarios under these conditions, those without a score left out."""
        rows = self.numbers.intervals.averages.filter(
            pl.col("condition").is_in(conditions) & pl.col("acc").is_not_null()
        )
        return self.rows(rows)

    def models(self, names: Iterable[str]) -> list[str]:
        """The names from the bottom up: baselines lowest."""
        return ordered(names, self.numbers.baselines)[::-1]

    def is_grey(self, name: str) -> bool:
        """Whether the name is a baseline beside models; where only baselines were played, none is grey."""
        return name in self.numbers.grey

    def played(self, **names: str) -> float:
        """The share of planned episodes that are finished, of the cells with these names (model, condition, scenario)."""
        finished, planned = self.numbers.played(tuple(names)).get(tuple(names.values()), (0, 0))
        return finished / max(1, planned)

    def strength(self, row: Row) -> float:
        """The opacity of a row's point: pale where its cells are unfinished."""
        names = {name: row[name] for name in ("model", "condition", "scenario") if name in row}
        return 1.0 if self.played(**names) == 1 else UNFINISHED

    def label(self, **names: str) -> str:
        """The model's name, and how far its cells are where they are unfinished."""
        share = self.played(**names)
        return plot_style.short(names["model"]) + ("" if share == 1 else f" ({int(100 * share)}%)")


def rows_figure(drawing: Drawing, names: Sequence[str], line: float, down: int, handles: Sequence[Handle]) -> Figure:
    """An empty figure for ``down`` rows of panels with a line (inches) a model, the legend above it.

    The lines shrink where a page is too short for them.
    """
    fixed = down * HEAD + legend_height(drawing.width, handles)
    figure = plot_style.canvas(drawing.width, min(plot_style.TALLEST, fixed + down * line * len(names)))
    legend(figure, handles)
    return figure


def name_rows(drawing: Drawing, panel: Axes, names: Sequence[str], title: str) -> None:
    """Names beside the rows, baselines in grey under a rule."""
    panel.set_yticks(range(len(names)), [drawing.label(model=name) for name in names])
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_title(title)
    grey = [drawing.is_grey(name) for name in names]
    # panels beside the first have no labels
    for label, is_grey in zip(panel.get_yticklabels(), grey, strict=False):
        label.set_color("#666666" if is_grey else INK)
    if any(grey):
        panel.axhline(sum(grey) - 0.5, color="#aaaaaa", linewidth=0.6, zorder=0)


def point(panel: Axes, at: tuple[float, float, float], level: float, look: tuple[str, str], **style: Any) -> None:
    """A value with its interval (value, low, high) on a row; ``style`` is the marker's, with ``alpha`` for both."""
    (colour, marker), (value, low, high) = look, at
    alpha = style.get("alpha", 1.0)
    panel.plot([low, high], [level, level], color=colour, linewidth=0.9, alpha=alpha, zorder=2, solid_capstyle="butt")
    panel.plot(value, level, marker, **{"markersize": 3.6, "color": colour, "zorder": 4, **style})


def estimate_of(row: Row, measure: str) -> tuple[float, float, float]:
    """A measure of a row with its interval."""
    return row[measure], row[f"{measure}_low"], row[f"{measure}_high"]


def legend(
    figure: Figure,
    handles: Sequence[Handle],
    place: Literal["outside upper left", "outside lower left"] = "outside upper left",
) -> None:
    """A legend beside the panels, read line by line, as many entries to a line as the width takes."""
    across = _across(figure.get_figwidth(), handles)
    by_column = [handle for column in range(across) for handle in handles[column::across]]
    figure.legend(handles=by_column, loc=place, ncols=across)


def legend_height(width: float, handles: Sequence[Handle]) -> float:
    """Inches that a legend of these entries takes in a figure of this width."""
    return LEGEND_LINE * -(-len(handles) // _across(width, handles))


def _across(width: float, handles: Sequence[Handle]) -> int:
    """Entries that fit beside each other; a column is as wide as its longest label."""
    font = FontProperties(family=plot_style.STYLE["font.family"])
    labels = [
        TextPath((0, 0), str(one.get_label()), plot_style.SMALLEST, prop=font).get_extents().width for one in handles
    ]
    columns = range(len(labels), 1, -1)
    taken = {count: sum(max(labels[n::count]) + LEGEND_MARK for n in range(count)) for count in columns}
    return next((count for count in columns if taken[count] <= 72 * width), 1)


def dot(look: tuple[str, str], label: str, **style: Any) -> Line2D:
    """A legend's entry for a point with its interval."""
    colour, marker = look
    return Line2D([], [], color=colour, marker=marker, linewidth=0.9, label=label, **{"markersize": 3.6, **style})


def remarks(drawing: Drawing, names: Iterable[str]) -> list[Handle]:
    """Legend entries that say what grey and pale mean, where something is so."""
    drawn = list(names)
    grey: list[Handle] = [Patch(facecolor=GREY, label="grey: baselines")] if any(map(drawing.is_grey, drawn)) else []
    pale = any(drawing.played(model=name) < 1 for name in drawn)
    return [*grey, *([Patch(facecolor=INK, alpha=UNFINISHED, label="pale: unfinished")] if pale else [])]


def enough(names: Iterable[str]) -> bool:
    """Whether there are models enough for a figure."""
    return len(set(names)) >= FEWEST
