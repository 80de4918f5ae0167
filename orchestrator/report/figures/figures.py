"""The figures: how episodes begin, changes under each condition, accuracy against the reference, shares of answers, model size.

Every point has its 95% interval, and every number is in the tables.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from envs import SCENARIOS, in_paper_order
from envs.plural import pluralize
from envs.types import Mode
from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.parts import (
    HEAD,
    LABEL,
    LEGEND_LINE,
    FigureContext,
    bounds_of,
    draw_point,
    has_enough_models,
    label_rows,
    legend_dot,
    new_rows_figure,
    style_notes,
)
from orchestrator.report.figures.style import ACTIONS, BEGINNINGS, CONDITIONS, GRAY, INK
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.families import comparisons
from orchestrator.report.tables.parts import Row
from sweeps.protocol import ZERO_SHOT

REFERENCE = "reference"
HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 1.0}
CHANGES = {
    "accuracy against zero-shot, points\n(paired 95% intervals)": bounds_of("difference"),
    "suggestions per episode against zero-shot\n(paired 95% intervals)": ("ps_difference", "ps_low", "ps_high"),
}
"""Axis label -> columns (value, low, high) of averages."""
SIZED = {"ps": "suggestions per episode", "acc": "accuracy, %"}


# -- shares in bars ----------------------------------------------------------------------------------------------------
def answer_figure(context: FigureContext) -> Figure | None:
    """Draw shares of episodes by their first reply, averaged over scenarios: zero-shot and with hints."""
    return _bars_figure(context, (ZERO_SHOT, "hint"), BEGINNINGS, "share of episodes by their first reply, %")


def actions_figure(context: FigureContext) -> Figure | None:
    """Draw shares of answers by action, averaged over scenarios: zero-shot, with hints and with random suggestions."""
    return _bars_figure(context, (ZERO_SHOT, "hint", "random-proactive"), ACTIONS, "share of answers, %")


def _bars_figure(
    context: FigureContext, conditions: Sequence[str], looks: dict[str, tuple[str, str, str]], label: str
) -> Figure | None:
    """Draw stacked shares, a panel per condition; the line on a bar is the interval of the first share."""
    first = next(iter(looks))
    rows = context.averages(conditions).drop_nulls(first)
    present = [name for name in conditions if name in set(rows["condition"])]
    if not has_enough_models(rows["model"]):
        return None
    names = context.models(rows["model"])
    entries = [
        Patch(facecolor=color, hatch=hatch, edgecolor="white", linewidth=0.3, label=name)
        for name, color, hatch in looks.values()
    ]
    figure = new_rows_figure(names, 0.15, 1, [*entries, *style_notes(context, names)])
    panels = figure.subplots(1, len(present), sharey=True, squeeze=False).ravel()
    for panel, condition in zip(panels, present, strict=True):
        for row in rows.filter(condition=condition).iter_rows(named=True):
            _draw_shares(context, panel, row, names.index(row["model"]), looks)
        label_rows(context, panel, names, condition)
        panel.set_xlim(0, 100)
        panel.set_xticks([0, 50, 100])
    figure.supxlabel(f"{label}, averaged over scenarios\n(line: 95% interval of the first share)")
    return figure


def _draw_shares(
    context: FigureContext, panel: Axes, row: Row, level: float, looks: dict[str, tuple[str, str, str]]
) -> None:
    left, shares = 0.0, {**row, "share_wrong": row["share_category"] - row["share_right"]}
    for share, (_, color, hatch) in looks.items():
        look = (plot_style.gray(color) if row["model"] in context.gray else color, context.opacity(row))
        edge = (1, 1, 1, 0.85)
        panel.barh(level, shares[share], 0.74, left, color=look, edgecolor=edge, hatch=hatch, linewidth=0.3)
        left += shares[share]
    ends = [row[f"{next(iter(looks))}{end}"] for end in ("_low", "_high")]
    if None not in ends:
        panel.plot(ends, [level, level], color="white", linewidth=2.2, zorder=5, solid_capstyle="butt")
        panel.plot(ends, [level, level], color=INK, linewidth=1.0, zorder=6, solid_capstyle="butt")


# -- changes under each condition --------------------------------------------------------------------------------------
def changes_figure(context: FigureContext, everywhere: bool) -> Figure | None:
    """Draw the change of accuracy and suggestions against zero-shot under each condition.

    With ``everywhere`` it draws the conditions of all scenarios, otherwise those of some scenarios only (solved examples).
    """
    played = {name: c for name, c in context.run_data.conditions.items() if c.mode is not Mode.REFERENCE}
    compared = [name for name, condition in played.items() if everywhere is not bool(condition.scenarios)]
    rows = context.rows(comparisons(context.run_data).condition_averages).filter(pl.col("condition").is_in(compared))
    if not has_enough_models(rows["model"]):
        return None
    names, conditions = context.models(rows["model"]), [name for name in compared if name in set(rows["condition"])]
    looks = {name: CONDITIONS.get(name) or plot_style.series_look(n) for n, name in enumerate(conditions)}
    entries = [legend_dot(look, name) for name, look in looks.items()]
    height = 0.06 + 0.075 * len(conditions)
    figure = new_rows_figure(names, height, 1, [*entries, *style_notes(context, names)])
    panels = figure.subplots(1, len(CHANGES), sharey=True, squeeze=False).ravel()
    title = "" if everywhere else "average of " + " and ".join(played[conditions[0]].scenarios)
    for panel, (label, columns) in zip(panels, CHANGES.items(), strict=True):
        _draw_changes(context, panel, names, looks, rows.drop_nulls(columns[0]), columns)
        label_rows(context, panel, names, title)
        panel.set_xlabel(label)
    return figure


def _draw_changes(
    context: FigureContext,
    panel: Axes,
    names: Sequence[str],
    looks: dict[str, tuple[str, str]],
    rows: pl.DataFrame,
    columns: Sequence[str],
) -> None:
    """Draw a point with its interval per model and condition."""
    panel.axvline(0, color=INK, linewidth=0.7, zorder=1)
    for row in rows.iter_rows(named=True):
        number, name = list(looks).index(row["condition"]), row["model"]
        level = names.index(name) + 0.72 * (0.5 - (number + 0.5) / len(looks))
        color, marker = looks[row["condition"]]
        look = (GRAY if name in context.gray else color, marker)
        draw_point(panel, row, columns, level, look, alpha=context.opacity(row), markersize=3.0)
    for level in range(1, len(names)):
        panel.axhline(level - 0.5, color="#eeeeee", linewidth=0.5, zorder=0)


# -- accuracy against reference ----------------------------------------------------------------------------------------
def reference_figure(context: FigureContext) -> Figure | None:
    """Draw zero-shot accuracy and accuracy on the clear image: a panel per scenario and for the average."""
    averages = context.averages([ZERO_SHOT, REFERENCE])
    if averages["condition"].n_unique() < 2 or not has_enough_models(averages["model"]):
        return None
    cells = context.rows(estimate(context.run_data).cells.drop_nulls("acc"))
    names, scenarios = context.models(averages["model"]), in_paper_order(cells["scenario"])
    rows_of_panels = -(-(len(scenarios) + 1) // 4)
    if rows_of_panels * (HEAD + LABEL * len(names)) + 2 * LEGEND_LINE > plot_style.TALLEST:
        scenarios = []  # only the average: the labels of so many models would overlap
    across = min(4, len(scenarios) + 1)
    down = -(-(len(scenarios) + 1) // across)
    entries = [
        legend_dot(CONDITIONS[ZERO_SHOT], ZERO_SHOT),
        legend_dot(CONDITIONS[REFERENCE], "reference (clear image)", **HOLLOW),
    ]
    figure = new_rows_figure(names, 0.16, down, [*entries, *style_notes(context, names)])
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, scenario in zip(panels, scenarios, strict=False):
        _draw_pairs(context, panel, names, cells.filter(scenario=scenario), scenario)
    _draw_pairs(context, panels[len(scenarios)], names, averages, _average_title(averages, cells["scenario"]))
    for panel in panels[len(scenarios) + 1 :]:
        panel.set_visible(False)
    figure.supxlabel("accuracy, %, with 95% intervals")
    return figure


def _average_title(averages: pl.DataFrame, scenarios: Iterable[str]) -> str:
    number = int(averages["scenarios"].max())  # type: ignore[arg-type]
    if number == len(SCENARIOS) and set(scenarios) <= SCENARIOS.keys():
        return "average"
    return f"average of {pluralize(number, 'scenario')}"


def _draw_pairs(context: FigureContext, panel: Axes, names: Sequence[str], rows: pl.DataFrame, title: str) -> None:
    scores = {(row["model"], row["condition"]): row for row in rows.iter_rows(named=True)}
    for level, name in enumerate(names):
        for condition, shift, style in ((ZERO_SHOT, 0.16, {}), (REFERENCE, -0.16, HOLLOW)):
            if row := scores.get((name, condition)):
                color, marker = CONDITIONS[condition]
                look = (GRAY if name in context.gray else color), marker
                draw_point(panel, row, bounds_of("acc"), level + shift, look, alpha=context.opacity(row), **style)
    label_rows(context, panel, names, title)
    panel.set_xlim(-4, 104)
    panel.set_xticks([0, 50, 100])


# -- model size --------------------------------------------------------------------------------------------------------
def capacity_figure(context: FigureContext) -> Figure | None:
    """Draw size against ps and acc under zero-shot, with Spearman's rank correlation, for models of published size.

    Models of one family share color and marker, and are joined by a line.
    """
    sizes = {model.name: model.parameters for model in context.run_data.sweep.models if model.parameters is not None}
    rows = context.averages([ZERO_SHOT]).filter(pl.col("model").is_in(list(sizes)))
    if not has_enough_models(rows["model"]):
        return None
    rows = rows.with_columns(parameters=pl.col("model").replace_strict(sizes, return_dtype=pl.Float64))
    families: dict[str, list[Row]] = {}
    for row in rows.sort("parameters", "model").iter_rows(named=True):
        families.setdefault(model_family(row["model"]), []).append(row)
    looks = {name: plot_style.series_look(number) for number, name in enumerate(families)}
    entries = [legend_dot(look, plot_style.short_label(name)) for name, look in looks.items()]
    figure = new_rows_figure([""], 1.6, 1, [*entries, *style_notes(context, rows["model"])])
    for panel, (measure, label) in zip(figure.subplots(1, 2), SIZED.items(), strict=True):
        for name, members in families.items():
            _draw_family(context, panel, members, measure, looks[name])
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set(xlabel="parameters, billions (log scale)", ylabel=label)
        panel.set_ylim(bottom=0)
        rho = float(rows.select(pl.corr("parameters", measure, method="spearman")).item())
        known = "no rank correlation" if rho != rho else f"Spearman's rho {rho:+.2f}, {pluralize(rows.height, 'model')}"
        panel.set_title(known, fontweight="normal")
    return figure


def model_family(model: str) -> str:
    """Return the model's name without its size: ``qwen2.5-vl-7b`` -> ``qwen2.5-vl``."""
    return re.sub(r"[-_]?[0-9]+(\.[0-9]+)?b$", "", model, flags=re.IGNORECASE) or model


def _draw_family(
    context: FigureContext, panel: Axes, members: Sequence[Row], measure: str, look: tuple[str, str]
) -> None:
    color, marker = look
    sizes = [row["parameters"] for row in members]
    panel.plot(sizes, [row[measure] for row in members], color=color, linewidth=0.7, alpha=0.6, zorder=1)
    for row in members:
        alpha, ends = context.opacity(row), [row[f"{measure}_low"], row[f"{measure}_high"]]
        if None not in ends:
            panel.plot([row["parameters"]] * 2, ends, color=color, linewidth=0.8, alpha=0.7 * alpha, zorder=2)
        panel.plot(row["parameters"], row[measure], marker, markersize=4.0, color=color, alpha=alpha, zorder=3)


FIGURES: dict[str, Callable[[FigureContext], Figure | None]] = {
    "answer": answer_figure,
    "conditions": partial(changes_figure, everywhere=True),
    "reference": reference_figure,
    "actions": actions_figure,
    "examples": partial(changes_figure, everywhere=False),
    "capacity": capacity_figure,
}
"""Name -> function that draws the figure; it returns None if the run has nothing to draw."""
