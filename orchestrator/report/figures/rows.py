"""Figures with a row per model: accuracy against the reference, shares of answers, changes under each condition.

Every point has its 95% interval, and every number is in the tables.
"""

from collections.abc import Iterable, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from envs import SCENARIOS, in_paper_order
from envs.plural import pluralize
from envs.types import Mode
from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.parts import (
    FigureContext,
    draw_point,
    has_enough_models,
    has_room,
    label_rows,
    legend_dot,
    new_rows_figure,
    style_notes,
    with_interval,
)
from orchestrator.report.figures.style import ACTIONS, CONDITIONS, GRAY, INK
from orchestrator.report.measures.share_changes import CHANGED_CONDITIONS
from orchestrator.report.scores.metrics import ACTION_SHARES
from orchestrator.report.tables.parts import Row
from sweeps.protocol import ZERO_SHOT

REFERENCE = "reference"
HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 1.0}
CHANGES = (
    ("accuracy against zero-shot, points\n(paired 95% intervals)", ("difference", "difference_low", "difference_high")),
    ("suggestions per episode against zero-shot\n(paired 95% intervals)", ("ps_difference", "ps_low", "ps_high")),
)
"""Axis label, and columns (value, low, high) of ``compare_condition_averages``."""


# -- accuracy against reference ----------------------------------------------------------------------------------------
def reference_figure(context: FigureContext) -> Figure | None:
    """Draw zero-shot accuracy and accuracy on the clear image: a panel per scenario and for the average.

    At column width it draws the average alone.
    """
    averages = context.averages([ZERO_SHOT, REFERENCE])
    if averages["condition"].n_unique() < 2 or not has_enough_models(averages["model"]):
        return None
    cells = context.rows(context.numbers.intervals.cells).filter(pl.col("acc").is_not_null())
    names = context.models(averages["model"])
    scenarios = in_paper_order(cells["scenario"]) if context.page else []
    if not has_room(len(names), -(-(len(scenarios) + 1) // 4)):
        scenarios = []  # only the average: the labels of so many models would overlap
    across = min(4, len(scenarios) + 1)
    down = -(-(len(scenarios) + 1) // across)
    entries = [
        legend_dot(CONDITIONS[ZERO_SHOT], ZERO_SHOT),
        legend_dot(CONDITIONS[REFERENCE], "reference (clear image)", **HOLLOW),
    ]
    figure = new_rows_figure(context, names, 0.16, down, [*entries, *style_notes(context, names)])
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
                look = _look(context, name, condition)
                draw_point(panel, with_interval(row, "acc"), level + shift, look, alpha=context.opacity(row), **style)
    axis = panel.get_yaxis_transform()
    for name in set(names) - {model for model, _ in scores}:
        panel.text(0.03, names.index(name), "not played", transform=axis, va="center", color=GRAY)
    label_rows(context, panel, names, title)
    panel.set_xlim(-4, 104)
    panel.set_xticks([0, 50, 100])


def _look(context: FigureContext, name: str, condition: str) -> tuple[str, str]:
    color, marker = CONDITIONS[condition]
    return (GRAY if context.is_gray(name) else color), marker


# -- shares of answers -------------------------------------------------------------------------------------------------
def actions_figure(context: FigureContext) -> Figure | None:
    """Draw shares of answers by action, averaged over scenarios: zero-shot, with hints and with random suggestions.

    At column width it draws zero-shot alone. The line on a bar is the interval of the share of suggestions.
    """
    conditions = (ZERO_SHOT, "hint", "random-proactive")
    rows = context.averages(conditions).filter(pl.col("share_suggestion").is_not_null())
    present = [name for name in conditions if name in set(rows["condition"])][: 3 if context.page else 1]
    rows = rows.filter(pl.col("condition").is_in(present))
    if not has_enough_models(rows["model"]):
        return None
    names = context.models(rows["model"])
    entries = [
        Patch(facecolor=color, hatch=hatch, edgecolor="white", linewidth=0.3, label=name)
        for name, color, hatch in ACTIONS.values()
    ]
    figure = new_rows_figure(context, names, 0.15, 1, [*entries, *style_notes(context, names)])
    panels = figure.subplots(1, len(present), sharey=True, squeeze=False).ravel()
    for panel, condition in zip(panels, present, strict=True):
        for row in rows.filter(condition=condition).iter_rows(named=True):
            _draw_shares(context, panel, row, names.index(row["model"]))
        label_rows(context, panel, names, condition)
        panel.set_xlim(0, 100)
        panel.set_xticks([0, 50, 100])
    figure.supxlabel("share of answers, %, averaged over scenarios\n(line: 95% interval of suggestions)")
    return figure


def _draw_shares(context: FigureContext, panel: Axes, row: Row, level: float) -> None:
    left, shares = 0.0, {**row, "share_wrong": row["share_category"] - row["share_right"]}
    for share, (_, color, hatch) in ACTIONS.items():
        look = (plot_style.gray(color) if context.is_gray(row["model"]) else color, context.opacity(row))
        edge = (1, 1, 1, 0.85)
        panel.barh(level, shares[share], 0.74, left, color=look, edgecolor=edge, hatch=hatch, linewidth=0.3)
        left += shares[share]
    ends = [row["share_suggestion_low"], row["share_suggestion_high"]]
    panel.plot(ends, [level, level], color="white", linewidth=2.2, zorder=5, solid_capstyle="butt")
    panel.plot(ends, [level, level], color=INK, linewidth=1.0, zorder=6, solid_capstyle="butt")


# -- changes under each condition --------------------------------------------------------------------------------------
def changes_figure(context: FigureContext, everywhere: bool) -> Figure | None:
    """Draw the change of accuracy and suggestions against zero-shot under each condition.

    With ``everywhere`` it draws the conditions of all scenarios, otherwise those of some scenarios only (solved examples).
    """
    conditions_by_name = context.numbers.conditions
    played = {name: condition for name, condition in conditions_by_name.items() if condition.mode is not Mode.REFERENCE}
    compared = [name for name, condition in played.items() if everywhere is not bool(condition.scenarios)]
    rows = context.rows(context.numbers.changes).filter(pl.col("condition").is_in(compared))
    if not has_enough_models(rows["model"]):
        return None
    names, conditions = context.models(rows["model"]), [name for name in compared if name in set(rows["condition"])]
    changes = CHANGES[: 2 if context.page else 1]
    figure, panels = _changes_panels(context, names, conditions, len(changes))
    title = "" if everywhere else "average of " + " and ".join(conditions_by_name[conditions[0]].scenarios)
    for panel, (label, columns) in zip(panels, changes, strict=True):
        _draw_changes(context, panel, names, conditions, rows, columns)
        label_rows(context, panel, names, title)
        panel.set_xlabel(label)
    return figure


def share_changes_figure(context: FigureContext) -> Figure | None:
    """Draw the change of the shares of answers under hints and random suggestions; at column width, suggestions alone."""
    rows = context.numbers.share_changes
    rows = rows if context.baselines else rows.filter(~pl.col("model").is_in(list(context.numbers.baselines)))
    if not has_enough_models(rows["model"]):
        return None
    names, played = context.models(rows["model"]), set(rows["condition"])
    conditions = [name for name in CHANGED_CONDITIONS if name in played]
    shares = list(ACTION_SHARES)[: 3 if context.page else 1]
    figure, panels = _changes_panels(context, names, conditions, len(shares))
    for panel, share in zip(panels, shares, strict=True):
        columns = ("points", "points_low", "points_high")
        _draw_changes(context, panel, names, conditions, rows.filter(share=share), columns)
        label_rows(context, panel, names, ACTION_SHARES[share])
    figure.supxlabel("share of answers against zero-shot, points\n(paired 95% intervals)")
    return figure


def _changes_panels(
    context: FigureContext, names: Sequence[str], conditions: Sequence[str], across: int
) -> tuple[Figure, Sequence[Axes]]:
    """Return an empty figure and its panels, with room for a line per model and condition."""
    entries = [legend_dot(_condition_look(name, number), name) for number, name in enumerate(conditions)]
    handles = [*entries, *style_notes(context, names)]
    figure = new_rows_figure(context, names, 0.06 + 0.075 * len(conditions), 1, handles)
    return figure, list(figure.subplots(1, across, sharey=True, squeeze=False).ravel())


def _draw_changes(
    context: FigureContext,
    panel: Axes,
    names: Sequence[str],
    conditions: Sequence[str],
    rows: pl.DataFrame,
    columns: Sequence[str],
) -> None:
    """Draw a point with its interval (``columns``: value, low, high) per model and condition."""
    panel.axvline(0, color=INK, linewidth=0.7, zorder=1)
    for row in rows.iter_rows(named=True):
        number, name = conditions.index(row["condition"]), row["model"]
        level = names.index(name) + 0.72 * (0.5 - (number + 0.5) / len(conditions))
        color, marker = _condition_look(row["condition"], number)
        look = (GRAY if context.is_gray(name) else color, marker)
        value, low, high = (row[column] for column in columns)
        draw_point(panel, (value, low, high), level, look, alpha=context.opacity(row), markersize=3.0)
    for level in range(1, len(names)):
        panel.axhline(level - 0.5, color="#eeeeee", linewidth=0.5, zorder=0)


def _condition_look(condition: str, number: int) -> tuple[str, str]:
    return CONDITIONS.get(condition) or plot_style.series_look(number)
