"""The figures at the width of a page: a row per model, baselines gray at the bottom, unfinished models pale.

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
from matplotlib.ticker import NullFormatter

from envs import SCENARIOS, in_paper_order
from envs.plural import pluralize
from envs.types import Mode
from orchestrator.report import figures as looks
from orchestrator.report.figures import FEWEST, INK, series_look, short_label
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.paired import comparisons
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import order_models
from sweeps.protocol import ZERO_SHOT

Handle = Line2D | Patch
PAGE, TALLEST = 6.75, 9.0
"""Width and largest height of a figure in inches, those of a page in two-column papers."""
HEAD, LEGEND_LINE, LEGEND_ENTRIES = 0.6, 0.17, 4
"""Inches that a row of panels needs beside its models, and a legend's line; entries of that line."""
CHANGES = {
    "accuracy against zero-shot, points\n(paired 95% intervals)": ("difference", "difference_low", "difference_high"),
    "suggestions per episode against zero-shot\n(paired 95% intervals)": ("ps_difference", "ps_low", "ps_high"),
}
"""Axis label -> columns (value, low, high) of averages."""
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

    def progress(self, model: str) -> float:
        """Return the finished share of the model's planned episodes of multiple choice."""
        cells = self.run_data.rows.filter(protocol="mcqa", model=model)
        return int(cells["finished"].sum()) / max(1, int(cells["planned"].sum()))

    def look(self, model: str, color: str) -> dict[str, Any]:
        """Return color and opacity of a model's point."""
        alpha = 1.0 if self.progress(model) == 1 else looks.PALE
        return {"color": looks.GRAY if model in self.gray else color, "alpha": alpha}

    def label(self, model: str) -> str:
        """Return the model's name, with its progress if it is unfinished."""
        progress = self.progress(model)
        return short_label(model) + ("" if progress == 1 else f" ({int(100 * progress)}%)")


def _rows_figure(
    context: FigureContext, models: Iterable[str], line: float, down: int, handles: Sequence[Handle]
) -> tuple[Figure, list[str]]:
    """Return a figure with a legend and ``down`` rows of panels, and the models from the bottom up, ``line`` inches each."""
    names = order_models(models, context.run_data.baselines)[::-1]
    notes: list[Handle] = [Patch(facecolor=looks.GRAY, label="gray: baselines")] if context.gray & set(names) else []
    if any(context.progress(name) < 1 for name in names):
        notes.append(Patch(facecolor=INK, alpha=looks.PALE, label="pale: unfinished"))
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


def _draw_point(panel: Axes, values: Sequence[Any], level: float, marker: str, **style: Any) -> None:
    """Draw a value with its interval (value, low, high) on a row."""
    value, low, high = values
    if low is not None:
        panel.plot([low, high], [level] * 2, color=style["color"], alpha=style["alpha"], linewidth=0.9, zorder=2)
    panel.plot(value, level, marker, **{"markersize": 3.3, "zorder": 4, **style})


def _legend_dot(look: tuple[str, str], label: str, **style: Any) -> Line2D:
    return Line2D([], [], color=look[0], marker=look[1], linewidth=0.9, label=label, markersize=3.6, **style)


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
            level, left, alpha = names.index(row["model"]), 0.0, context.look(row["model"], INK)["alpha"]
            for share, (_, color, hatch) in styles.items():
                edge = {"edgecolor": (1, 1, 1, 0.85), "linewidth": 0.3}
                panel.barh(level, row[share], 0.74, left, color=(color, alpha), hatch=hatch, **edge)
                left += row[share]
            if row[f"{first}_low"] is not None:
                for color, width in (("white", 2.2), (INK, 1.0)):
                    ends = [row[f"{first}_low"], row[f"{first}_high"]]
                    panel.plot(ends, [level] * 2, color=color, linewidth=width, zorder=6, solid_capstyle="butt")
        _label_rows(context, panel, names, condition)
        panel.set(xlim=(0, 100), xticks=[0, 50, 100])
    figure.supxlabel(f"{label}, averaged over scenarios\n(line: 95% interval of the first share)")
    return figure


def changes_figure(context: FigureContext, everywhere: bool) -> Figure | None:
    """Draw the change of accuracy and suggestions against zero-shot under each condition.

    With ``everywhere`` it draws the conditions of all scenarios, otherwise those of some scenarios only (solved examples).
    """
    played = {name: c for name, c in context.run_data.conditions.items() if c.mode is not Mode.REFERENCE}
    compared = [name for name, condition in played.items() if everywhere is not bool(condition.scenarios)]
    averages = comparisons(context.run_data).condition_averages
    rows = averages.filter(pl.col("condition").is_in(compared), protocol="mcqa")
    if rows["model"].n_unique() < FEWEST:
        return None
    conditions = [name for name in compared if name in set(rows["condition"])]
    styles = {name: looks.CONDITIONS.get(name) or series_look(n) for n, name in enumerate(conditions)}
    entries = [_legend_dot(look, name) for name, look in styles.items()]
    figure, names = _rows_figure(context, rows["model"], 0.06 + 0.075 * len(conditions), 1, entries)
    panels = figure.subplots(1, len(CHANGES), sharey=True, squeeze=False).ravel()
    title = "" if everywhere else "average of " + " and ".join(played[conditions[0]].scenarios)
    for panel, (label, columns) in zip(panels, CHANGES.items(), strict=True):
        panel.axvline(0, color=INK, linewidth=0.7, zorder=1)
        for row in rows.drop_nulls(columns[0]).iter_rows(named=True):
            level = names.index(row["model"]) + 0.72 * (0.5 - (conditions.index(row["condition"]) + 0.5) / len(styles))
            color, marker = styles[row["condition"]]
            style = context.look(row["model"], color)
            _draw_point(panel, [row[column] for column in columns], level, marker, **style)
        _label_rows(context, panel, names, title)
        panel.set_xlabel(label)
    return figure


def reference_figure(context: FigureContext) -> Figure | None:
    """Draw zero-shot accuracy and, hollow, that on the clear image: a panel per scenario and for the average."""
    pairs = [ZERO_SHOT, "reference"]
    averages = context.averages(pairs)
    if averages["condition"].n_unique() < 2 or averages["model"].n_unique() < FEWEST:
        return None
    cells = estimate(context.run_data).cells.drop_nulls("acc").filter(pl.col("condition").is_in(pairs), protocol="mcqa")
    scenarios = in_paper_order(cells["scenario"])
    is_paper = len(scenarios) == len(SCENARIOS) and set(scenarios) <= SCENARIOS.keys()
    title = "average" if is_paper else f"average of {pluralize(len(scenarios), 'scenario')}"
    panels_shown = {name: cells.filter(scenario=name) for name in scenarios} | {title: averages}
    if averages["model"].n_unique() > 24:
        panels_shown = {title: averages}  # the labels of so many models would overlap
    across = min(4, len(panels_shown))
    down = -(-len(panels_shown) // across)
    hollow = {"markerfacecolor": "white", "markeredgewidth": 1.0}
    entries = [
        _legend_dot(looks.CONDITIONS[ZERO_SHOT], ZERO_SHOT),
        _legend_dot(looks.CONDITIONS["reference"], "reference", **hollow),
    ]
    figure, names = _rows_figure(context, averages["model"], 0.16, down, entries)
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, (name, rows) in zip(panels, panels_shown.items(), strict=False):
        for row in rows.iter_rows(named=True):
            color, marker = looks.CONDITIONS[row["condition"]]
            shift, style = (0.16, {}) if row["condition"] == ZERO_SHOT else (-0.16, hollow)
            level, look = names.index(row["model"]) + shift, context.look(row["model"], color)
            _draw_point(panel, [row[column] for column in ACCURACY], level, marker, **look, **style)
        _label_rows(context, panel, names, name)
        panel.set(xlim=(-4, 104), xticks=[0, 50, 100])
    for panel in panels[len(panels_shown) :]:
        panel.set_visible(False)
    figure.supxlabel("accuracy, %, with 95% intervals")
    return figure


def capacity_figure(context: FigureContext) -> Figure | None:
    """Draw size against suggestions and accuracy under zero-shot, with Spearman's rank correlation; a line per family."""
    sizes = {model.name: model.parameters for model in context.run_data.sweep.models if model.parameters is not None}
    rows = context.averages([ZERO_SHOT]).filter(pl.col("model").is_in(list(sizes)))
    if rows.height < FEWEST:
        return None
    size, family = pl.col("model").replace_strict(sizes, return_dtype=pl.Float64), r"(?i)[-_]?[0-9]+(\.[0-9]+)?b$"
    rows = rows.with_columns(parameters=size, family=pl.col("model").str.replace(family, "")).sort(
        "parameters", "model"
    )
    families = rows.partition_by("family", as_dict=True, maintain_order=True)
    styles = {name: series_look(number) for number, (name,) in enumerate(families)}
    entries = [_legend_dot(look, short_label(str(name))) for name, look in styles.items()]
    figure, _ = _rows_figure(context, rows["model"], 1.6 / rows.height, 1, entries)
    for panel, (measure, label) in zip(
        figure.subplots(1, 2), (("ps", "suggestions"), ("acc", "accuracy, %")), strict=True
    ):
        for (name,), part in families.items():
            color, marker = styles[name]
            panel.plot(part["parameters"], part[measure], marker=marker, markersize=4.0, color=color, linewidth=0.7)
            for row in part.drop_nulls(f"{measure}_low").iter_rows(named=True):
                ends = [row[f"{measure}_low"], row[f"{measure}_high"]]
                panel.plot([row["parameters"]] * 2, ends, color=color, linewidth=0.8, alpha=0.7)
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set(xlabel="parameters, billions (log scale)", ylabel=label)
        panel.set_ylim(bottom=0)
        rho = float(rows.select(pl.corr("parameters", measure, method="spearman")).item())
        known = "no rank correlation" if rho != rho else f"Spearman's rho {rho:+.2f}, {pluralize(rows.height, 'model')}"
        panel.set_title(known, fontweight="normal")
    return figure


BEGIN, ANSWER = "share of episodes by their first reply, %", "share of answers, %"
FIGURES: dict[str, Callable[[FigureContext], Figure | None]] = {
    "answer": partial(shares_figure, conditions=(ZERO_SHOT, "hint"), styles=looks.BEGINNINGS, label=BEGIN),
    "conditions": partial(changes_figure, everywhere=True),
    "reference": reference_figure,
    "actions": partial(
        shares_figure, conditions=(ZERO_SHOT, "hint", "random-proactive"), styles=looks.ACTIONS, label=ANSWER
    ),
    "examples": partial(changes_figure, everywhere=False),
    "capacity": capacity_figure,
}
"""Name -> function that draws the figure; it returns None if the run has nothing to draw."""
