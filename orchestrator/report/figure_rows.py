"""Figures with a row a model: accuracy against reference, what models do, what each condition changes.

Every point has its 95% interval, and every number is one of the tables'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from envs import SCENARIOS, in_order
from envs.types import Mode
from orchestrator.report import plot_style
from orchestrator.report.figure_parts import (
    Drawing,
    Row,
    dot,
    enough,
    estimate_of,
    name_rows,
    point,
    remarks,
    rows_figure,
)
from orchestrator.report.plot_style import ACTIONS, CONDITIONS, GREY, INK
from orchestrator.report.share_changes import CONDITIONS as SHARES_UNDER

ZERO_SHOT, REFERENCE = "zero-shot", "reference"
HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 1.0}
CHANGES = {
    "acc": (
        "accuracy against zero-shot, points\n(paired 95% intervals)",
        ("difference", "difference_low", "difference_high"),
    ),
    "ps": ("suggestions an episode against zero-shot\n(paired 95% intervals)", ("ps_difference", "ps_low", "ps_high")),
}
"""Measure -> title and columns of ``averages_against``."""
SHARE_TITLES = {"share_suggestion": "suggestions", "share_abstention": "abstentions", "share_category": "categories"}


# -- accuracy against reference ----------------------------------------------------------------------------------------
def against_reference(drawing: Drawing) -> Figure | None:
    """Zero-shot accuracy beside that on the clear image: a panel a scenario and the average; in a column the average alone."""
    averages = drawing.averages([ZERO_SHOT, REFERENCE])
    if averages["condition"].n_unique() < 2 or not enough(averages["model"]):
        return None
    cells = drawing.rows(drawing.numbers.intervals.cells).filter(pl.col("acc").is_not_null())
    names = drawing.models(averages["model"])
    scenarios = in_order(cells["scenario"]) if drawing.page else []
    across = min(4, len(scenarios) + 1)
    down = -(-(len(scenarios) + 1) // across)
    looks = [dot(CONDITIONS[ZERO_SHOT], "zero-shot"), dot(CONDITIONS[REFERENCE], "reference (clear image)", **HOLLOW)]
    figure = rows_figure(drawing, names, 0.16, down, [*looks, *remarks(drawing, names)])
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, scenario in zip(panels, scenarios, strict=False):
        _dumbbells(drawing, panel, names, cells.filter(scenario=scenario), scenario)
    _dumbbells(drawing, panels[len(scenarios)], names, averages, _average(averages, cells["scenario"]))
    for panel in panels[len(scenarios) + 1 :]:
        panel.set_visible(False)
    figure.supxlabel("accuracy, %, with 95% intervals")
    return figure


def _average(averages: pl.DataFrame, scenarios: Iterable[str]) -> str:
    most = int(averages["scenarios"].max())  # type: ignore[arg-type]
    if most == len(SCENARIOS) and set(scenarios) <= SCENARIOS.keys():
        return "average"
    return f"average of {most} scenario{'' if most == 1 else 's'}"


def _dumbbells(drawing: Drawing, panel: Axes, names: Sequence[str], rows: pl.DataFrame, title: str) -> None:
    found = {(row["model"], row["condition"]): row for row in rows.iter_rows(named=True)}
    for place, name in enumerate(names):
        for condition, shift, style in ((ZERO_SHOT, 0.16, {}), (REFERENCE, -0.16, HOLLOW)):
            if row := found.get((name, condition)):
                look = _look(drawing, name, condition)
                point(panel, estimate_of(row, "acc"), place + shift, look, alpha=drawing.strength(row), **style)
    absent = set(names) - {model for model, _ in found}
    for name in absent:
        panel.text(
            0.03, names.index(name), "not played", transform=panel.get_yaxis_transform(), va="center", color=GREY
        )
    name_rows(drawing, panel, names, title)
    panel.set_xlim(-4, 104)
    panel.set_xticks([0, 50, 100])


def _look(drawing: Drawing, name: str, condition: str) -> tuple[str, str]:
    colour, marker = CONDITIONS[condition]
    return (GREY if drawing.is_grey(name) else colour), marker


# -- what models do ----------------------------------------------------------------------------------------------------
def actions(drawing: Drawing) -> Figure | None:
    """Shares of answers by action, averaged over scenarios: zero-shot, with hints and with random suggestions.

    In a column zero-shot alone. The line at the end of a bar's first part is the interval of the share of suggestions.
    """
    wanted = (ZERO_SHOT, "hint", "random-proactive")
    rows = drawing.averages(wanted).filter(pl.col("share_suggestion").is_not_null())
    present = [name for name in wanted if name in set(rows["condition"])][: 3 if drawing.page else 1]
    rows = rows.filter(pl.col("condition").is_in(present))
    if not enough(rows["model"]):
        return None
    names = drawing.models(rows["model"])
    kinds = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0.3, label=name)
        for name, colour, hatch in ACTIONS.values()
    ]
    figure = rows_figure(drawing, names, 0.15, 1, [*kinds, *remarks(drawing, names)])
    panels = figure.subplots(1, len(present), sharey=True, squeeze=False).ravel()
    for panel, condition in zip(panels, present, strict=True):
        for row in rows.filter(condition=condition).iter_rows(named=True):
            _stack(drawing, panel, row, names.index(row["model"]))
        name_rows(drawing, panel, names, condition)
        panel.set_xlim(0, 100)
        panel.set_xticks([0, 50, 100])
    figure.supxlabel("share of answers, %, averaged over scenarios\n(line: 95% interval of suggestions)")
    return figure


def _stack(drawing: Drawing, panel: Axes, row: Row, place: float) -> None:
    left, shares = 0.0, {**row, "share_wrong": row["share_category"] - row["share_right"]}
    for share, (_, colour, hatch) in ACTIONS.items():
        look = (plot_style.grey(colour) if drawing.is_grey(row["model"]) else colour, drawing.strength(row))
        edge = (1, 1, 1, 0.85)
        panel.barh(place, shares[share], 0.74, left, color=look, edgecolor=edge, hatch=hatch, linewidth=0.3)
        left += shares[share]
    ends = [row["share_suggestion_low"], row["share_suggestion_high"]]
    panel.plot(ends, [place, place], color="white", linewidth=2.2, zorder=5, solid_capstyle="butt")
    panel.plot(ends, [place, place], color=INK, linewidth=1.0, zorder=6, solid_capstyle="butt")


# -- what each condition changes ---------------------------------------------------------------------------------------
def changes(drawing: Drawing) -> Figure | None:
    """What each condition played everywhere changes against zero-shot on the same samples: accuracy and suggestions."""
    return _changes(drawing, everywhere=True)


def changes_by_examples(drawing: Drawing) -> Figure | None:
    """The same, for conditions that exist in some scenarios only, as solved examples do."""
    return _changes(drawing, everywhere=False)


def _changes(drawing: Drawing, everywhere: bool) -> Figure | None:
    known = drawing.numbers.conditions
    shown = [
        name for name, one in known.items() if one.mode is not Mode.REFERENCE and everywhere is not bool(one.scenarios)
    ]
    rows = drawing.rows(drawing.numbers.changes).filter(pl.col("condition").is_in(shown))
    if not enough(rows["model"]):
        return None
    names, conditions = drawing.models(rows["model"]), [name for name in shown if name in set(rows["condition"])]
    measures = list(CHANGES)[: 2 if drawing.page else 1]
    figure, panels = _conditions_beside(drawing, names, conditions, len(measures))
    title = "" if everywhere else "average of " + " and ".join(known[conditions[0]].scenarios)
    for panel, measure in zip(panels, measures, strict=True):
        _beside(drawing, panel, names, conditions, rows, CHANGES[measure][1])
        name_rows(drawing, panel, names, title)
        panel.set_xlabel(CHANGES[measure][0])
    return figure


def share_changes_figure(drawing: Drawing) -> Figure | None:
    """What hints and random suggestions change in the shares of answers; in a column the share of suggestions alone."""
    found = drawing.numbers.share_changes
    rows = found if drawing.baselines else found.filter(~pl.col("model").is_in(list(drawing.numbers.baselines)))
    if not enough(rows["model"]):
        return None
    names, conditions = drawing.models(rows["model"]), [name for name in SHARES_UNDER if name in set(rows["condition"])]
    shares = list(SHARE_TITLES)[: 3 if drawing.page else 1]
    figure, panels = _conditions_beside(drawing, names, conditions, len(shares))
    for panel, share in zip(panels, shares, strict=True):
        columns = ("points", "points_low", "points_high")
        _beside(drawing, panel, names, conditions, rows.filter(share=share), columns)
        name_rows(drawing, panel, names, SHARE_TITLES[share])
    figure.supxlabel("share of answers against zero-shot, points\n(paired 95% intervals)")
    return figure


def _conditions_beside(
    drawing: Drawing, names: Sequence[str], conditions: Sequence[str], across: int
) -> tuple[Figure, Sequence[Axes]]:
    """An empty figure with panels of the models, a line of each for every condition."""
    looks = [dot(_marked(name, number), name) for number, name in enumerate(conditions)]
    figure = rows_figure(drawing, names, 0.06 + 0.075 * len(conditions), 1, [*looks, *remarks(drawing, names)])
    return figure, list(figure.subplots(1, across, sharey=True, squeeze=False).ravel())


def _beside(
    drawing: Drawing,
    panel: Axes,
    names: Sequence[str],
    conditions: Sequence[str],
    rows: pl.DataFrame,
    columns: Sequence[str],
) -> None:
    """Points of the columns (value, low, high) of each model, one under another for the conditions."""
    panel.axvline(0, color=INK, linewidth=0.7, zorder=1)
    for row in rows.iter_rows(named=True):
        number, name = conditions.index(row["condition"]), row["model"]
        level = names.index(name) + 0.72 * (0.5 - (number + 0.5) / len(conditions))
        colour, marker = _marked(row["condition"], number)
        look = (GREY if drawing.is_grey(name) else colour, marker)
        value, low, high = (row[column] for column in columns)
        point(panel, (value, low, high), level, look, alpha=drawing.strength(row), markersize=3.0)
    for place in range(1, len(names)):
        panel.axhline(place - 0.5, color="#eeeeee", linewidth=0.5, zorder=0)


def _marked(condition: str, number: int) -> tuple[str, str]:
    return CONDITIONS.get(condition) or plot_style.series(number)
