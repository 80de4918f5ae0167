"""The figures at the width of a page: a row per model, baselines gray at the bottom, unfinished models with their progress.

Every point has its 95% interval, and every number is in the tables. Equal figures give equal bytes.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from envs import in_paper_order
from envs.types import Mode
from orchestrator.report import figures as looks
from orchestrator.report.figures import FEWEST, INK, series_look, short_label
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.paired import comparisons
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import average_heading, order_models
from sweeps.protocol import ZERO_SHOT

Handle = Line2D | Patch
PAGE, TALLEST = 6.75, 9.0
"""Width and largest height of a figure in inches, those of a page in two-column papers."""
HEAD, LEGEND_LINE, LEGEND_ENTRIES = 0.6, 0.17, 4
"""Inches that a row of panels needs beside its models, and a legend's line; entries of that line."""
Columns = tuple[str, str, str]
"""Columns of a value and the ends of its interval."""
CHANGES: dict[str, Columns] = {
    "accuracy, points": ("difference", "difference_low", "difference_high"),
    "suggestions per episode": ("ps_difference", "ps_low", "ps_high"),
}
"""Title -> columns of averages."""
ACCURACY = ("acc", "acc_low", "acc_high")


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save figures in the house style inside the block; settings outside stay unchanged."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(looks.STYLE)  # type: ignore[arg-type]
        yield


def new_figure(height: float) -> Figure:
    """Return an empty figure of a page's width and this height in inches, with a constrained layout."""
    figure = Figure(figsize=(PAGE, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def lay_out(figure: Figure) -> None:
    """Lay out the figure once; with a layout engine, matplotlib draws a figure twice for each file."""
    figure.draw_without_rendering()
    figure.set_layout_engine(None)


def render(figure: Figure, form: str) -> bytes:
    """Return the figure as ``pdf`` (its fonts embedded), ``svg`` or ``png``, without a date."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format=form, metadata=dict.fromkeys(looks.METADATA[form]), dpi=200)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class FigureContext:
    """A run as its figures show it."""

    run_data: RunData

    @property
    def gray(self) -> frozenset[str]:
        """Return the baselines if models were planned too; a run of baselines alone is in color."""
        baselines = self.run_data.baselines
        return frozenset() if set(self.run_data.rows["model"]) <= baselines else baselines

    def averages(self, conditions: Sequence[str]) -> pl.DataFrame:
        """Return the scored averages over scenarios under these conditions."""
        scored = estimate(self.run_data).averages.drop_nulls("acc")
        return scored.filter(pl.col("condition").is_in(conditions), protocol="mcqa")

    def look(self, model: str, color: str) -> dict[str, Any]:
        """Return the color of a model's point."""
        return {"color": looks.GRAY if model in self.gray else color}

    def label(self, model: str) -> str:
        """Return the model's name, with its progress if it is unfinished."""
        cells = self.run_data.rows.filter(protocol="mcqa", model=model)
        planned, finished = int(cells["planned"].sum()), int(cells["finished"].sum())
        return short_label(model) + (f" ({int(100 * finished / planned)}%)" if finished < planned else "")


def _rows_figure(
    context: FigureContext, models: Iterable[str], line: float, down: int, handles: Sequence[Handle]
) -> tuple[Figure, list[str]]:
    """Return a figure with a legend and ``down`` rows of panels, and the models from the bottom up, ``line`` inches each."""
    names = order_models(models, context.run_data.baselines)[::-1]
    notes: list[Handle] = [Patch(facecolor=looks.GRAY, label="gray: baselines")] if context.gray & set(names) else []
    handles = [*handles, *notes]
    fixed = down * HEAD + LEGEND_LINE * -(-len(handles) // LEGEND_ENTRIES)
    figure = new_figure(min(TALLEST, fixed + down * line * len(names)))
    figure.legend(handles=handles, loc="outside upper left", ncols=LEGEND_ENTRIES)
    return figure, names


def _label_rows(context: FigureContext, panel: Axes, names: Sequence[str], title: str) -> None:
    """Label the rows with the models' names, baselines in gray under a rule."""
    panel.set_yticks(range(len(names)), [context.label(name) for name in names])
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.set_title(title)
    gray = [name in context.gray for name in names]
    for label, is_gray in zip(panel.get_yticklabels(), gray, strict=False):  # only the first panel has labels
        label.set_color("#666666" if is_gray else INK)
    if any(gray):
        panel.axhline(sum(gray) - 0.5, color="#aaaaaa", linewidth=0.6, zorder=0)


def _legend_dot(look: tuple[str, str], label: str) -> Line2D:
    return Line2D([], [], color=look[0], marker=look[1], linewidth=0.9, label=label, markersize=3.6)


def shares_figure(
    context: FigureContext, conditions: Sequence[str], styles: Mapping[str, tuple[str, str, str]], label: str
) -> Figure | None:
    """Draw stacked shares, a panel per condition; the line on a bar is the interval of the first share."""
    rows = context.averages(conditions).drop_nulls(first := next(iter(styles)))
    if rows["model"].n_unique() < FEWEST:
        return None
    rows = rows.with_columns(share_wrong=pl.col("share_category") - pl.col("share_right"))
    entries = [
        Patch(facecolor=color, hatch=hatch, edgecolor="white", linewidth=0.3, label=name)
        for name, color, hatch in styles.values()
    ]
    figure, names = _rows_figure(context, rows["model"], 0.15, 1, entries)
    present = [name for name in conditions if name in set(rows["condition"])]
    panels = figure.subplots(1, len(present), sharey=True, squeeze=False).ravel()
    for panel, condition in zip(panels, present, strict=True):
        for row in rows.filter(condition=condition).iter_rows(named=True):
            level, left = names.index(row["model"]), 0.0
            for share, (_, color, hatch) in styles.items():
                edge = {"edgecolor": (1, 1, 1, 0.85), "linewidth": 0.3}
                panel.barh(level, row[share], 0.74, left, color=color, hatch=hatch, **edge)
                left += row[share]
            if row[f"{first}_low"] is not None:
                for color, width in (("white", 2.2), (INK, 1.0)):
                    ends = [row[f"{first}_low"], row[f"{first}_high"]]
                    panel.plot(ends, [level] * 2, color=color, linewidth=width, zorder=6, solid_capstyle="butt")
        _label_rows(context, panel, names, condition)
        panel.set(xlim=(0, 100), xticks=[0, 50, 100])
    figure.supxlabel(f"{label}, averaged over scenarios\n(line: 95% interval of the first share)")
    return figure


def dots_figure(
    context: FigureContext, panels: Mapping[str, tuple[pl.DataFrame, Columns]], styles: Mapping[str, tuple[str, str]]
) -> Figure:
    """Draw a point with its interval per model and condition (of ``styles``), in a panel per title: rows, columns."""
    models = pl.concat([rows["model"] for rows, _ in panels.values()])
    entries = [_legend_dot(look, name) for name, look in styles.items()]
    across, order = min(4, len(panels)), list(styles)
    down = -(-len(panels) // across)
    figure, names = _rows_figure(context, models, 0.06 + 0.075 * len(styles), down, entries)
    axes = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, (title, (rows, columns)) in zip(axes, panels.items(), strict=False):
        for row in rows.drop_nulls(columns[0]).iter_rows(named=True):
            shift = 0.72 * (0.5 - (order.index(row["condition"]) + 0.5) / len(styles))
            color, marker = styles[row["condition"]]
            level, style = names.index(row["model"]) + shift, context.look(row["model"], color)
            value, *ends = (row[column] for column in columns)
            if ends[0] is not None:
                panel.plot(ends, [level] * 2, linewidth=0.9, zorder=2, **style)
            panel.plot(value, level, marker, markersize=3.3, zorder=4, **style)
        _label_rows(context, panel, names, title)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    return figure


def changes_figure(context: FigureContext) -> Figure | None:
    """Draw the change of accuracy and suggestions against zero-shot, averaged over each condition's scenarios."""
    played = [name for name, c in context.run_data.conditions.items() if c.mode is not Mode.REFERENCE]
    averages = comparisons(context.run_data).condition_averages
    rows = averages.filter(pl.col("condition").is_in(played), protocol="mcqa")
    if rows["model"].n_unique() < FEWEST:
        return None
    conditions = [name for name in played if name in set(rows["condition"])]
    styles = {name: series_look(number) for number, name in enumerate(conditions)}
    figure = dots_figure(context, {title: (rows, columns) for title, columns in CHANGES.items()}, styles)
    for panel in figure.axes:
        panel.axvline(0, color=INK, linewidth=0.7, zorder=1)
    figure.supxlabel("change against zero-shot, with paired 95% intervals")
    return figure


def reference_figure(context: FigureContext) -> Figure | None:
    """Draw accuracy under zero-shot and on the clear image: a panel per scenario and for the average."""
    styles = {name: series_look(number) for number, name in enumerate((ZERO_SHOT, "reference"))}
    averages = context.averages(list(styles))
    if averages["condition"].n_unique() < 2 or averages["model"].n_unique() < FEWEST:
        return None
    cells = estimate(context.run_data).cells.filter(pl.col("condition").is_in(list(styles)), protocol="mcqa")
    scenarios = in_paper_order(cells["scenario"])
    panels = {name: (cells.filter(scenario=name), ACCURACY) for name in scenarios}
    if averages["model"].n_unique() > 24:
        panels = {}  # the labels of so many models would overlap
    figure = dots_figure(context, {**panels, average_heading(scenarios): (averages, ACCURACY)}, styles)
    for panel in figure.axes:
        panel.set(xlim=(-4, 104), xticks=[0, 50, 100])
    figure.supxlabel("accuracy, %, with 95% intervals")
    return figure


BEGIN, ANSWER = "share of episodes by their first reply, %", "share of answers, %"
FIGURES: dict[str, Callable[[FigureContext], Figure | None]] = {
    "answer": partial(shares_figure, conditions=(ZERO_SHOT, "hint"), styles=looks.BEGINNINGS, label=BEGIN),
    "conditions": changes_figure,
    "reference": reference_figure,
    "actions": partial(
        shares_figure, conditions=(ZERO_SHOT, "hint", "random-proactive"), styles=looks.ACTIONS, label=ANSWER
    ),
}
"""Name -> function that draws the figure; it returns None if the run has nothing to draw."""
