"""Parts that the figures share: models as rows and their order, points with intervals, legends.

Models stand above baselines, baselines are gray, and unfinished models are pale and show their progress.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath

from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.numbers import FigureNumbers
from orchestrator.report.figures.style import GRAY, INK, UNFINISHED
from orchestrator.report.tables.parts import Row, order_models

Handle = Line2D | Patch
FEWEST = 3
"""Fewest models of a figure: with fewer, a table says more in less space."""
HEAD = 0.6
"""Inches that a row of panels needs beside the lines of its models: for title, ticks and axis label."""
LABEL = 0.12
"""Inches that a model's label needs."""
LEGEND_LINE, LEGEND_MARK = 0.17, 26.0
"""Inches of a legend's line; points of a label's mark and the space around both."""


@dataclass(frozen=True, slots=True)
class FigureContext:
    """The numbers of a run, the width in inches, and whether baselines are drawn."""

    numbers: FigureNumbers
    width: float = plot_style.PAGE
    baselines: bool = True

    @property
    def page(self) -> bool:
        return self.width > plot_style.COLUMN

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of multiple choice that are drawn."""
        frame = frame.filter(protocol="mcqa")
        return frame if self.baselines else frame.filter(~pl.col("model").is_in(list(self.numbers.baselines)))

    def averages(self, conditions: Sequence[str]) -> pl.DataFrame:
        """Return the averages over scenarios under these conditions, without those that have no score."""
        scored = self.numbers.intervals.averages.drop_nulls("acc")
        return self.rows(scored.filter(pl.col("condition").is_in(conditions)))

    def models(self, names: Iterable[str]) -> list[str]:
        """Return the names from the bottom up: baselines lowest."""
        return order_models(names, self.numbers.baselines)[::-1]

    def is_gray(self, name: str) -> bool:
        """Return True for a baseline if models were planned too."""
        return name in self.numbers.gray

    def progress(self, **names: str) -> float:
        """Return the finished share of the planned episodes with these names (model, condition, scenario)."""
        counts = self.numbers.progress(tuple(names)).get(tuple(names.values()))
        return counts[0] / max(1, counts[1]) if counts else 0.0

    def opacity(self, row: Row) -> float:
        """Return the opacity of a row's point: pale if its cells are unfinished."""
        names = {name: row[name] for name in ("model", "condition", "scenario") if name in row}
        return 1.0 if self.progress(**names) == 1 else UNFINISHED

    def label(self, **names: str) -> str:
        """Return the model's name, with its progress if its cells are unfinished."""
        progress = self.progress(**names)
        return plot_style.short_label(names["model"]) + ("" if progress == 1 else f" ({int(100 * progress)}%)")


def new_rows_figure(
    context: FigureContext, names: Sequence[str], line: float, down: int, handles: Sequence[Handle]
) -> Figure:
    """Return a figure with a legend and room for ``down`` rows of panels, in which each model takes ``line`` inches.

    The lines shrink where a page is too short for them.
    """
    fixed = down * HEAD + legend_height(context.width, handles)
    figure = plot_style.new_figure(context.width, min(plot_style.TALLEST, fixed + down * line * len(names)))
    add_legend(figure, handles)
    return figure


def label_rows(context: FigureContext, panel: Axes, names: Sequence[str], title: str) -> None:
    """Label the rows with the models' names, baselines in gray under a rule."""
    panel.set_yticks(range(len(names)), [context.label(model=name) for name in names])
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_title(title)
    gray = [context.is_gray(name) for name in names]
    # only the first panel has labels
    for label, is_gray in zip(panel.get_yticklabels(), gray, strict=False):
        label.set_color("#666666" if is_gray else INK)
    if any(gray):
        panel.axhline(sum(gray) - 0.5, color="#aaaaaa", linewidth=0.6, zorder=0)


def draw_point(panel: Axes, at: tuple[float, float, float], level: float, look: tuple[str, str], **style: Any) -> None:
    """Draw a value with its interval (value, low, high) on a row; ``style`` is the marker's, with ``alpha`` for both."""
    (color, marker), (value, low, high) = look, at
    alpha = style.get("alpha", 1.0)
    panel.plot([low, high], [level, level], color=color, linewidth=0.9, alpha=alpha, zorder=2, solid_capstyle="butt")
    panel.plot(value, level, marker, **{"markersize": 3.6, "color": color, "zorder": 4, **style})


def with_interval(row: Row, measure: str) -> tuple[float, float, float]:
    """Return a measure of a row with its interval."""
    return row[measure], row[f"{measure}_low"], row[f"{measure}_high"]


def add_legend(
    figure: Figure,
    handles: Sequence[Handle],
    location: Literal["outside upper left", "outside lower left"] = "outside upper left",
) -> None:
    """Add a legend outside the panels, read line by line, with as many entries per line as fit."""
    across = _across(figure.get_figwidth(), handles)
    by_column = [handle for column in range(across) for handle in handles[column::across]]
    figure.legend(handles=by_column, loc=location, ncols=across)


def legend_height(width: float, handles: Sequence[Handle]) -> float:
    """Return the inches that a legend of these entries takes in a figure of this width."""
    return LEGEND_LINE * -(-len(handles) // _across(width, handles))


def _across(width: float, handles: Sequence[Handle]) -> int:
    """Return how many entries fit on a line; a column is as wide as its longest label."""
    font = FontProperties(family=plot_style.STYLE["font.family"])
    texts = [TextPath((0, 0), str(handle.get_label()), plot_style.SMALLEST, prop=font) for handle in handles]
    labels = [text.get_extents().width for text in texts]
    columns = range(len(labels), 1, -1)
    widths = {count: sum(max(labels[n::count]) + LEGEND_MARK for n in range(count)) for count in columns}
    return next((count for count in columns if widths[count] <= 72 * width), 1)


def legend_dot(look: tuple[str, str], label: str, **style: Any) -> Line2D:
    """Return a legend's entry for a point with its interval."""
    color, marker = look
    return Line2D([], [], color=color, marker=marker, linewidth=0.9, label=label, **{"markersize": 3.6, **style})


def style_notes(context: FigureContext, names: Iterable[str]) -> list[Handle]:
    """Return legend entries that explain gray and pale, if they occur."""
    models, entries = list(names), list[Handle]()
    if any(map(context.is_gray, models)):
        entries.append(Patch(facecolor=GRAY, label="gray: baselines"))
    if any(context.progress(model=name) < 1 for name in models):
        entries.append(Patch(facecolor=INK, alpha=UNFINISHED, label="pale: unfinished"))
    return entries


def has_room(models: int, down: int) -> bool:
    """Return True if the labels of so many models fit on a page in ``down`` rows of panels."""
    return down * (HEAD + LABEL * models) + 2 * LEGEND_LINE <= plot_style.TALLEST


def has_enough_models(names: Iterable[str]) -> bool:
    """Return True if there are enough models for a figure."""
    return len(set(names)) >= FEWEST
