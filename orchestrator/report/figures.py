"""Every figure is a function of the evidence; what is unfinished is drawn pale and says so.

A figure that the run has no cells for is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from envs import SCENARIOS
from orchestrator.report import look
from orchestrator.report.capacity import capacity, points
from orchestrator.report.efficiency import budget_averages
from orchestrator.report.evidence import Evidence, read
from orchestrator.report.look import ACTIONS, CONDITIONS, FAINT, INK
from orchestrator.report.statistics import Bootstrap, bootstrap
from orchestrator.report.tables import models
from sweeps.spec import WITH_EXAMPLES

Row = Mapping[str, Any]
LINE = 0.21
"""Inches that a model's row takes."""
MEASURED = {"acc": "accuracy, %", "ps": "suggestions per episode"}


def write_figures(folder: Path, data: Path | None = None) -> list[Path]:
    """SVG and PNG of every figure that the run has, into ``folder/figures``; the files written, sorted."""
    place = Path(folder) / "figures"
    place.mkdir(exist_ok=True)
    drawn = figures(read(folder, data))
    return sorted(path for name, figure in drawn.items() for path in look.save(figure, place, name))


def figures(evidence: Evidence, intervals: Bootstrap | None = None) -> dict[str, Figure]:
    """Name -> figure, those without cells left out; draw them with ``look.svg`` or ``look.png``."""
    intervals = intervals or bootstrap(evidence)
    makers: dict[str, Callable[[Evidence, Bootstrap], Figure | None]] = {
        "reference": against_reference,
        "actions": actions,
        "actions-behind": actions_behind,
        "conditions": beside_zero_shot,
        "capacity": capacity_figure,
        "budget": budget_figure,
    }
    with look.house():
        made = {name: maker(evidence, intervals) for name, maker in makers.items()}
    return {name: figure for name, figure in made.items() if figure is not None}


# -- accuracy against reference ----------------------------------------------------------------------------------------
def against_reference(evidence: Evidence, intervals: Bootstrap) -> Figure | None:
    """A panel a scenario and one for the average: zero-shot with its interval, joined to the clear image."""
    wanted = (pl.col("protocol") == "mcqa") & pl.col("condition").is_in(["zero-shot", "reference"])
    cells, averages = intervals.cells.filter(wanted), intervals.averages.filter(wanted)
    if cells["condition"].n_unique() < 2:
        return None
    names = models(evidence, cells["model"])[::-1]
    scenarios = [name for name in SCENARIOS if name in set(cells["scenario"])]
    across = min(4, len(scenarios) + 1)
    down = -(-(len(scenarios) + 1) // across)
    figure = look.canvas(2.4 * across + 1.2, down * (LINE * len(names) + 0.75) + 0.4)
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, scenario in zip(panels, scenarios, strict=False):
        _dumbbells(panel, names, cells.filter(scenario=scenario), scenario)
    _dumbbells(panels[len(scenarios)], names, _counted(evidence, averages), "average")
    for panel in panels[len(scenarios) + 1 :]:
        panel.set_visible(False)
    figure.supxlabel(MEASURED["acc"], fontsize=8)
    _legend(
        figure, [_dot(CONDITIONS["zero-shot"][0], "o", "zero-shot, 95% interval"), _hollow("reference (clear image)")]
    )
    return figure


def _dumbbells(panel: Axes, names: Sequence[str], rows: pl.DataFrame, title: str) -> None:
    found = {(row["model"], row["condition"]): row for row in rows.iter_rows(named=True) if row["acc"] is not None}
    for place, name in enumerate(names):
        played, clear = found.get((name, "zero-shot")), found.get((name, "reference"))
        if played and clear:
            panel.plot([played["acc"], clear["acc"]], [place, place], color="#cfcfcf", linewidth=1.4, zorder=1)
        if clear:
            colour = CONDITIONS["reference"][0] if _whole(clear) else FAINT
            panel.plot(
                clear["acc"], place, "s", markersize=4.5, markerfacecolor="white", markeredgecolor=colour, zorder=3
            )
        if played:
            colour = INK if _whole(played) else FAINT
            panel.plot([played["acc_low"], played["acc_high"]], [place, place], color=colour, linewidth=0.9, zorder=2)
            panel.plot(played["acc"], place, "o", markersize=3.6, color=colour, zorder=4)
    _rows_of(panel, names, title)
    panel.set_xlim(-4, 104)
    panel.set_xticks([0, 25, 50, 75, 100])


# -- what models do ----------------------------------------------------------------------------------------------------
def actions(evidence: Evidence, intervals: Bootstrap) -> Figure | None:
    """Share of answers by action under zero-shot, averaged over scenarios, stacked (paper: action distributions)."""
    rows = _counted(evidence, intervals.averages.filter(protocol="mcqa", condition="zero-shot"))
    rows = rows.filter(pl.col("share_suggestion").is_not_null())
    if rows.is_empty():
        return None
    names = models(evidence, rows["model"])[::-1]
    figure = look.canvas(6.4, LINE * len(names) + 1.1)
    panel = figure.subplots()
    for row in rows.iter_rows(named=True):
        _stack(panel, row, names.index(row["model"]), height=0.72)
    _rows_of(panel, [_told(name, rows) for name in names], "zero-shot")
    return _shares(figure, panel)


def actions_behind(evidence: Evidence, intervals: Bootstrap) -> Figure | None:
    """The same, with hints above and random suggestions below each bar, paler."""
    behind = {"hint": 0.3, "random-proactive": -0.3}
    rows = _counted(evidence, intervals.averages.filter(pl.col("protocol") == "mcqa"))
    rows = rows.filter(pl.col("condition").is_in(["zero-shot", *behind]) & pl.col("share_suggestion").is_not_null())
    if not set(behind) & set(rows["condition"]) or "zero-shot" not in set(rows["condition"]):
        return None
    names = models(evidence, rows["model"])[::-1]
    figure = look.canvas(6.8, 2.6 * LINE * len(names) + 1.1)
    panel = figure.subplots()
    for row in rows.iter_rows(named=True):
        place, shift = names.index(row["model"]), behind.get(row["condition"], 0.0)
        _stack(panel, row, place + shift, height=0.24 if shift else 0.34, pale=bool(shift))
        label = {"hint": "hint", "random-proactive": "random"}.get(row["condition"], "zero-shot")
        panel.text(101, place + shift, label, va="center", fontsize=5.5, color=INK if not shift else "#777777")
    zero_shot = rows.filter(condition="zero-shot")
    _rows_of(panel, [_told(name, zero_shot) for name in names], "zero-shot; with hints above, random suggestions below")
    panel.grid(False)
    return _shares(figure, panel)


def _stack(panel: Axes, row: Row, place: float, height: float, pale: bool = False) -> None:
    left, shares = 0.0, {**row, "share_wrong": row["share_category"] - row["share_right"]}
    strength = (0.5 if pale else 1.0) * (1.0 if _whole(row) else 0.4)
    for share, (_, colour, hatch) in ACTIONS.items():
        width = shares[share]
        edge = (1, 1, 1, 0.85)
        panel.barh(place, width, height, left, color=(colour, strength), edgecolor=edge, hatch=hatch, linewidth=0.3)
        left += width


def _shares(figure: Figure, panel: Axes) -> Figure:
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of answers, %, averaged over scenarios")
    kinds = [
        Patch(facecolor=c, hatch=h, edgecolor="white", linewidth=0.3, label=name) for name, c, h in ACTIONS.values()
    ]
    _legend(figure, kinds)
    return figure


# -- conditions --------------------------------------------------------------------------------------------------------
def beside_zero_shot(evidence: Evidence, intervals: Bootstrap) -> Figure | None:
    """acc and ps under hints and history against zero-shot, and under examples against zero-shot on their scenarios."""
    cells = intervals.cells.filter(protocol="mcqa")
    groups = [
        ("all scenarios", _rows(evidence, intervals, ["zero-shot", "hint", "history"]), ["hint", "history"]),
        (" and ".join(WITH_EXAMPLES), _examples(cells), ["icl-1", "icl-3"]),
    ]
    groups = [group for group in groups if set(group[2]) & set(group[1]["condition"])]
    if not groups:
        return None
    names = models(evidence, pl.concat([rows["model"] for _, rows, _ in groups]))[::-1]
    figure = look.canvas(8.2, len(groups) * (LINE * len(names) + 0.8) + 0.4)
    panels = figure.subplots(len(groups), 2, sharey=True, squeeze=False)
    for (title, rows, others), pair in zip(groups, panels, strict=True):
        for panel, measure in zip(pair, MEASURED, strict=True):
            _beside(panel, names, rows, others, measure)
            _rows_of(panel, names, f"{title}: {MEASURED[measure]}")
    shown = [name for _, rows, others in groups for name in others if name in set(rows["condition"])]
    _legend(figure, [_dot(*CONDITIONS[name], name) for name in ("zero-shot", *shown)])
    return figure


def _beside(panel: Axes, names: Sequence[str], rows: pl.DataFrame, others: Sequence[str], measure: str) -> None:
    found = {(row["model"], row["condition"]): row for row in rows.iter_rows(named=True) if row[measure] is not None}
    for place, name in enumerate(names):
        base = found.get((name, "zero-shot"))
        for number, other in enumerate(others):
            row = found.get((name, other))
            level = place + (0.14 if number else -0.14) * (len(others) > 1)
            if not row:
                continue
            colour, marker = CONDITIONS[other] if _whole(row) else (FAINT, CONDITIONS[other][1])
            if base:
                panel.plot([base[measure], row[measure]], [level, level], color=colour, linewidth=0.9, zorder=2)
            panel.plot(row[measure], level, marker, markersize=3.6, color=colour, zorder=3)
        if base:
            panel.plot(base[measure], place, "|", markersize=9, markeredgewidth=1.6, color=INK, zorder=4)
    if measure == "ps":
        panel.set_xscale("symlog", linthresh=1)
        panel.set_xlim(-0.05, None)
        panel.set_xticks([0, 0.5, 1, 2, 5, 10, 20, 50], ["0", "0.5", "1", "2", "5", "10", "20", "50"])
        most = max((row["ps"] for row in found.values()), default=1.0)
        panel.set_xlim(-0.05, max(1.0, most) * 1.15)
        panel.minorticks_off()


def _examples(cells: pl.DataFrame) -> pl.DataFrame:
    """Averages over the scenarios that have examples."""
    wanted = pl.col("scenario").is_in(WITH_EXAMPLES) & pl.col("condition").is_in(["zero-shot", "icl-1", "icl-3"])
    means = pl.col("acc", "ps").mean()
    return cells.filter(wanted & pl.col("acc").is_not_null()).group_by("model", "condition").agg(
        means, pl.col("planned", "finished").sum()
    ).sort("model", "condition")  # fmt: skip


# -- capacity and budget -----------------------------------------------------------------------------------------------
def capacity_figure(evidence: Evidence, intervals: Bootstrap) -> Figure | None:
    """Size against ps and acc under zero-shot, with Spearman's rank correlation; models without published size are absent."""
    names = ["model", "condition", "protocol"]
    sized = points(evidence).filter(condition="zero-shot", protocol="mcqa").select(*names, "parameters")
    rows = sized.join(_rows(evidence, intervals, ["zero-shot"]), on=names, maintain_order="left")
    if rows.is_empty():
        return None
    tests = {
        row["measure"]: row for row in capacity(evidence).filter(condition="zero-shot", protocol="mcqa").to_dicts()
    }
    figure = look.canvas(8.2, 3.4)
    for panel, measure in zip(figure.subplots(1, 2), ("ps", "acc"), strict=True):
        for row in rows.iter_rows(named=True):
            colour = CONDITIONS["history"][0] if _whole(row) else FAINT
            x, low, high = row["parameters"], row[f"{measure}_low"], row[f"{measure}_high"]
            panel.plot([x, x], [low, high], color=colour, linewidth=0.8)
            panel.plot(x, row[measure], "o", markersize=3.6, color=colour)
        _name_points(panel, rows, measure)
        panel.set_xscale("log")
        panel.grid(axis="y")
        panel.set_xlabel("parameters, billions")
        panel.set_ylabel(MEASURED[measure])
        panel.set_title(_correlation(tests[measure]), fontsize=8, fontweight="normal", loc="left")
    return figure


def _name_points(panel: Axes, rows: pl.DataFrame, measure: str) -> None:
    """Names of models of one size are spread, so that they do not lie on one another."""
    reach = max(float(rows[f"{measure}_high"].max() or 1), 1e-9)  # type: ignore[arg-type]
    panel.set_ylim(-0.04 * reach, 1.06 * reach)
    for _, part in rows.group_by("parameters", maintain_order=True):
        level = -reach
        for row in part.sort(measure).iter_rows(named=True):
            level = max(row[measure], level + 0.036 * reach)
            panel.annotate(
                look.short(row["model"]), (row["parameters"], row[measure]), (4, 0), textcoords="offset points",
                fontsize=5, va="center", color="#444444",
            ).set_position((4, (level - row[measure]) / reach * 190))  # fmt: skip


def _correlation(test: Row) -> str:
    if test["rho"] is None:
        return f"no rank correlation: {test['reason']}"
    p = "p < 0.001" if test["p"] < 0.001 else f"p = {test['p']:.3f}"
    return f"Spearman's rank correlation {test['rho']:+.2f} ({test['models']} models, permutation {p})"


def budget_figure(evidence: Evidence, intervals: Bootstrap) -> Figure | None:
    """Accuracy when only so many suggestions are allowed: a panel a model, the other models pale behind it."""
    rows = budget_averages(evidence).filter(condition="zero-shot", protocol="mcqa")
    if rows.is_empty():
        return None
    whole = {row["model"]: _whole(row) for row in _rows(evidence, intervals, ["zero-shot"]).iter_rows(named=True)}
    curves = {str(name): part for (name,), part in rows.group_by(["model"])}
    names = models(evidence, curves)
    across = min(5, len(names))
    down = -(-len(names) // across)
    figure = look.canvas(1.75 * across + 0.5, 1.35 * down + 0.5)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, name in zip(panels, names, strict=False):
        for other in names:
            panel.plot(curves[other]["budget"], curves[other]["acc"], color="#dcdcdc", linewidth=0.7, zorder=1)
        colour = CONDITIONS["history"][0] if whole[name] else FAINT
        style = "-" if whole[name] else "--"
        panel.plot(curves[name]["budget"], curves[name]["acc"], style, color=colour, linewidth=1.6, zorder=3)
        panel.set_title(look.short(name) + ("" if whole[name] else " (unfinished)"), fontsize=7, loc="left")
        panel.set_ylim(-3, 103)
        panel.grid(axis="both")
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    figure.supxlabel("suggestions allowed", fontsize=8)
    figure.supylabel("accuracy, %, averaged over scenarios", fontsize=8)
    return figure


# -- what they share ---------------------------------------------------------------------------------------------------
def _rows(evidence: Evidence, intervals: Bootstrap, conditions: Sequence[str]) -> pl.DataFrame:
    wanted = (pl.col("protocol") == "mcqa") & pl.col("condition").is_in(conditions)
    return _counted(evidence, intervals.averages.filter(wanted))


def _counted(evidence: Evidence, averages: pl.DataFrame) -> pl.DataFrame:
    """Averages with planned and finished episodes, so that an unfinished one can be told."""
    names = ["model", "condition", "protocol"]
    counts = evidence.rows.group_by(names).agg(pl.col("planned", "finished").sum())
    return averages.join(counts, on=names, how="left", maintain_order="left")


def _whole(row: Row) -> bool:
    return bool(row["finished"] == row["planned"])


def _told(name: str, rows: pl.DataFrame) -> str:
    """The model's label; an unfinished one says how far it is."""
    found = rows.filter(model=name).to_dicts()
    if not found or _whole(found[0]):
        return name
    return f"{look.short(name)} ({100 * found[0]['finished'] // max(1, found[0]['planned'])}% played)"


def _rows_of(panel: Axes, names: Sequence[str], title: str) -> None:
    panel.set_yticks(range(len(names)), [name if "% played)" in name else look.short(name) for name in names])
    panel.set_ylim(-0.7, len(names) - 0.3)
    panel.set_title(title, loc="left")


def _legend(figure: Figure, handles: Sequence[Line2D | Patch]) -> None:
    pale = Patch(facecolor=FAINT, label="pale: unfinished")
    figure.legend(handles=[*handles, pale], loc="outside upper left", ncols=len(handles) + 1, fontsize=7)


def _dot(colour: str, marker: str, label: str) -> Line2D:
    size = 9 if marker == "|" else 4
    return Line2D([], [], color=colour, marker=marker, linestyle="", markersize=size, markeredgewidth=1.2, label=label)


def _hollow(label: str) -> Line2D:
    colour, marker = CONDITIONS["reference"]
    return Line2D([], [], marker=marker, markerfacecolor="white", markeredgecolor=colour, linestyle="", label=label)
