"""Parts that the figures share: models as rows and their order, points with intervals, legends.

Models stand above baselines, baselines are gray, and unfinished models are pale and show their progress.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from orchestrator.report.figures import FEWEST
from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.style import GRAY, INK, UNFINISHED
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, order_models

Handle = Line2D | Patch
HEAD = 0.6
"""Inches that a row of panels needs beside the lines of its models: for title, ticks and axis label."""
LABEL = 0.12
"""Inches that a model's label needs."""
LEGEND_LINE, LEGEND_ENTRIES = 0.17, 4
"""Inches of a legend's line, and its entries."""


@dataclass(frozen=True, slots=True)
class FigureContext:
    """A run, and whether baselines are drawn."""

    run_data: RunData
    baselines: bool = True

    @property
    def gray(self) -> frozenset[str]:
        """Return the baselines if models were planned too, otherwise none: a run of baselines alone is in color."""
        baselines = self.run_data.baselines
        return frozenset() if set(self.run_data.rows["model"]) <= baselines else baselines

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of multiple choice that are drawn."""
        frame = frame.filter(protocol="mcqa")
        return frame if self.baselines else frame.filter(~pl.col("model").is_in(list(self.run_data.baselines)))

    def averages(self, conditions: Sequence[str]) -> pl.DataFrame:
        """Return the averages over scenarios under these conditions, without those that have no score."""
        scored = estimate(self.run_data).averages.drop_nulls("acc")
        return self.rows(scored.filter(pl.col("condition").is_in(conditions)))

    def models(self, names: Iterable[str]) -> list[str]:
        """Return the names from the bottom up: baselines lowest."""
        return order_models(names, self.run_data.baselines)[::-1]

    def progress(self, names: Mapping[str, str]) -> float:
        """Return the finished share of the planned episodes of multiple choice with these names."""
        cells = self.run_data.rows.filter(protocol="mcqa", **names)
        return int(cells["finished"].sum()) / max(1, int(cells["planned"].sum()))

    def opacity(self, row: Row) -> float:
        """Return the opacity of a row's point: pale if its cells are unfinished."""
        names = {name: row[name] for name in ("model", "condition", "scenario") if name in row}
        return 1.0 if self.progress(names) == 1 else UNFINISHED

    def label(self, model: str) -> str:
        """Return the model's name, with its progress if its cells are unfinished."""
        progress = self.progress({"model": model})
        return plot_style.short_label(model) + ("" if progress == 1 else f" ({int(100 * progress)}%)")


def new_rows_figure(names: Sequence[str], line: float, down: int, handles: Sequence[Handle]) -> Figure:
    """Return a figure with a legend and room for ``down`` rows of panels, in which each model takes ``line`` inches.

    The lines shrink where a page is too short for them.
    """
    fixed = down * HEAD + LEGEND_LINE * -(-len(handles) // LEGEND_ENTRIES)
    figure = plot_style.new_figure(min(plot_style.TALLEST, fixed + down * line * len(names)))
    figure.legend(handles=handles, loc="outside upper left", ncols=LEGEND_ENTRIES)
    return figure


def label_rows(context: FigureContext, panel: Axes, names: Sequence[str], title: str) -> None:
    """Label the rows with the models' names, baselines in gray under a rule."""
    panel.set_yticks(range(len(names)), [context.label(name) for name in names])
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_title(title)
    gray = [name in context.gray for name in names]
    for label, is_gray in zip(panel.get_yticklabels(), gray, strict=False):  # only the first panel has labels
        label.set_color("#666666" if is_gray else INK)
    if any(gray):
        panel.axhline(sum(gray) - 0.5, color="#aaaaaa", linewidth=0.6, zorder=0)


def draw_point(
    panel: Axes, row: Row, columns: Sequence[str], level: float, look: tuple[str, str], **style: Any
) -> None:
    """Draw a value with its interval (``columns``) on a row; ``style`` is the marker's, with ``alpha`` for both."""
    (color, marker), (value, low, high) = look, (row[column] for column in columns)
    if low is not None:
        alpha = style.get("alpha", 1.0)
        panel.plot([low, high], [level, level], color=color, linewidth=0.9, alpha=alpha, zorder=2)
    panel.plot(value, level, marker, **{"markersize": 3.6, "color": color, "zorder": 4, **style})


def bounds_of(measure: str) -> tuple[str, str, str]:
    """Return the columns of a measure and its interval."""
    return measure, f"{measure}_low", f"{measure}_high"


def legend_dot(look: tuple[str, str], label: str, **style: Any) -> Line2D:
    """Return a legend's entry for a point with its interval."""
    color, marker = look
    return Line2D([], [], color=color, marker=marker, linewidth=0.9, label=label, **{"markersize": 3.6, **style})


def style_notes(context: FigureContext, names: Iterable[str]) -> list[Handle]:
    """Return legend entries that explain gray and pale, if they occur."""
    models, entries = list(names), list[Handle]()
    if context.gray & set(models):
        entries.append(Patch(facecolor=GRAY, label="gray: baselines"))
    if any(context.progress({"model": name}) < 1 for name in models):
        entries.append(Patch(facecolor=INK, alpha=UNFINISHED, label="pale: unfinished"))
    return entries


def has_enough_models(names: Iterable[str]) -> bool:
    """Return True if there are enough models for a figure."""
    return len(set(names)) >= FEWEST
