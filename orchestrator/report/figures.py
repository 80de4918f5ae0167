"""The figures of a report, drawn with matplotlib.

Every figure is a function of the run data; what is unfinished is drawn pale and labelled. A figure without cells is not made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from envs import SCENARIOS
from orchestrator.report import plot_style
from orchestrator.report.efficiency import budget_averages
from orchestrator.report.estimates import Estimates, estimate
from orchestrator.report.model_size import capacity, points
from orchestrator.report.plot_style import ACTIONS, CONDITIONS, FAINT, INK
from orchestrator.report.run_data import RunData, read
from orchestrator.report.tables import models
from sweeps.conditions import WITH_EXAMPLES

Row = Mapping[str, Any]
LINE = 0.21
"""Inches that a model's row takes."""
PALE: dict[str, Any] = {"color": "#8a8a8a", "fontsize": 6, "va": "center", "style": "italic"}
MEASURED = {"acc": "accuracy, %", "ps": "suggestions per episode"}


def write_figures(folder: Path, data: Path | None = None) -> list[Path]:
    """SVG and PNG of every figure that the run has, into ``folder/figures``; the files written, sorted."""
    place = Path(folder) / "figures"
    place.mkdir(exist_ok=True)
    drawn = figures(read(folder, data))
    return sorted(path for name, figure in drawn.items() for path in plot_style.save(figure, place, name))


def figures(run_data: RunData, intervals: Estimates | None = None) -> dict[str, Figure]:
    """Name -> figure, those without cells left out; draw them with ``plot_style.svg`` or ``plot_style.png``."""
    intervals = intervals or estimate(run_data)
    makers: dict[str, Callable[[RunData, Estimates], Figure | None]] = {
        "reference": against_reference,
        "actions": actions,
        "actions-behind": actions_behind,
        "conditions": beside_zero_shot,
        "capacity": capacity_figure,
        "budget": budget_figure,
    }
    with plot_style.house():
        made = {name: maker(run_data, intervals) for name, maker in makers.items()}
    return {name: figure for name, figure in made.items() if figure is not None}


# -- accuracy against reference ----------------------------------------------------------------------------------------
def against_reference(run_data: RunData, intervals: Estimates) -> Figure | None:
    """A panel a scenario and one for the average: zero-shot with its interval, joined to the clear image."""
    wanted = (pl.col("protocol") == "mcqa") & pl.col("condition").is_in(["zero-shot", "reference"])
    cells, averages = intervals.cells.filter(wanted), intervals.averages.filter(wanted)
    if cells["condition"].n_unique() < 2:
        return None
    names = models(run_data, cells["model"])[::-1]
    scenarios = [name for name in SCENARIOS if name in set(cells["scenario"])]
    across = min(4, len(scenarios) + 1)
    down = -(-(len(scenarios) + 1) // across)
    figure = plot_style.canvas(2.4 * across + 1.2, down * (LINE * len(names) + 0.75) + 0.4)
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, scenario in zip(panels, scenarios, strict=False):
        _dumbbells(panel, names, cells.filter(scenario=scenario), scenario)
    _dumbbells(panels[len(scenarios)], names, _counted(run_data, averages), "average")
    for panel in panels[len(scenarios) + 1 :]:
        panel.set_visible(False)
    figure.supxlabel(MEASURED["acc"], fontsize=8)
    played = _dot(CONDITIONS["zero-shot"][0], "o", "zero-shot, 95% interval")
    _legend(figure, [played, _hollow("reference (clear image)")], cells)
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
    _absent(panel, names, {model for model, _ in found})
    _rows_of(panel, names, title)
    panel.set_xlim(-4, 104)
    panel.set_xticks([0, 25, 50, 75, 100])


# -- what models do ----------------------------------------------------------------------------------------------------
def actions(run_data: RunData, intervals: Estimates) -> Figure | None:
    """Share of answers by action under zero-shot, averaged over scenarios, stacked (paper: action distributions)."""
    rows = _counted(run_data, intervals.averages.filter(protocol="mcqa", condition="zero-shot"))
    rows = rows.filter(pl.col("share_suggestion").is_not_null())
    if rows.is_empty():
        return None
    names = models(run_data, rows["model"])[::-1]
    figure = plot_style.canvas(6.4, LINE * len(names) + 1.1)
    panel = figure.subplots()
    for row in rows.iter_rows(named=True):
        _stack(panel, row, names.index(row["model"]), height=0.72)
    _rows_of(panel, [_progress_label(name, rows) for name in names], "zero-shot")
    return _shares(figure, panel, rows)


def actions_behind(run_data: RunData, intervals: Estimates) -> Figure | None:
    """The same, with hints above and random suggestions below each bar, paler."""
    behind = {"hint": 0.3, "random-proactive": -0.3}
    rows = _counted(run_data, intervals.averages.filter(pl.col("protocol") == "mcqa"))
    rows = rows.filter(pl.col("condition").is_in(["zero-shot", *behind]) & pl.col("share_suggestion").is_not_null())
    if not set(behind) & set(rows["condition"]) or "zero-shot" not in set(rows["condition"]):
        return None
    names = models(run_data, rows["model"])[::-1]
    figure = plot_style.canvas(6.8, 2.6 * LINE * len(names) + 1.1)
    panel = figure.subplots()
    for row in rows.iter_rows(named=True):
        place, shift = names.index(row["model"]), behind.get(row["condition"], 0.0)
        _stack(panel, row, place + shift, height=0.24 if shift else 0.34, pale=bool(shift))
        label = {"hint": "hint", "random-proactive": "random"}.get(row["condition"], "zero-shot")
        panel.text(101, place + shift, label, va="center", fontsize=5.5, color=INK if not shift else "#777777")
    zero_shot = rows.filter(condition="zero-shot")
    _rows_of(
        panel,
        [_progress_label(name, zero_shot) for name in names],
        "zero-shot; with hints above, random suggestions below",
    )
    panel.grid(False)
    return _shares(figure, panel, rows)


def _stack(panel: Axes, row: Row, place: float, height: float, pale: bool = False) -> None:
    left, shares = 0.0, {**row, "share_wrong": row["share_category"] - row["share_right"]}
    strength = (0.5 if pale else 1.0) * (1.0 if _whole(row) else 0.4)
    for share, (_, colour, hatch) in ACTIONS.items():
        width = shares[share]
        edge = (1, 1, 1, 0.85)
        panel.barh(place, width, height, left, color=(colour, strength), edgecolor=edge, hatch=hatch, linewidth=0.3)
        left += width


def _shares(figure: Figure, panel: Axes, rows: pl.DataFrame) -> Figure:
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of answers, %, averaged over scenarios")
    kinds = [
        Patch(facecolor=c, hatch=h, edgecolor="white", linewidth=0.3, label=name) for name, c, h in ACTIONS.values()
    ]
    _legend(figure, kinds, rows)
    return figure


# -- conditions --------------------------------------------------------------------------------------------------------
def beside_zero_shot(run_data: RunData, intervals: Estimates) -> Figure | None:
    """acc and ps under hints and history against zero-shot, and under examples against zero-shot on their scenarios."""
    cells = intervals.cells.filter(protocol="mcqa")
    groups = [
        ("all scenarios", _rows(run_data, intervals, ["zero-shot", "hint", "history"]), ["hint", "history"]),
        (" and ".join(WITH_EXAMPLES), _examples(cells), ["icl-1", "icl-3"]),
    ]
    groups = [group for group in groups if set(group[2]) & set(group[1]["condition"])]
    if not groups:
        return None
    names = models(run_data, pl.concat([rows["model"] for _, rows, _ in groups]))[::-1]
    figure = plot_style.canvas(8.2, len(groups) * (LINE * len(names) + 0.8) + 0.4)
    panels = figure.subplots(len(groups), 2, sharey=True, squeeze=False)
    for (title, rows, others), pair in zip(groups, panels, strict=True):
        for panel, measure in zip(pair, MEASURED, strict=True):
            _beside(panel, names, rows, others, measure)
            _rows_of(panel, names, f"{title}: {MEASURED[measure]}")
    shown = [name for _, rows, others in groups for name in others if name in set(rows["condition"])]
    _legend(figure, [_dot(*CONDITIONS[name], name) for name in ("zero-shot", *shown)], *(rows for _, rows, _ in groups))
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
            panel.plot(
                base[measure],
                place,
                "|",
                markersize=9,
                markeredgewidth=1.6,
                color=INK if _whole(base) else FAINT,
                zorder=4,
            )
    _absent(panel, names, {model for model, _ in found})
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
    return cells.filter(wanted).group_by("model", "condition").agg(
        means, pl.col("planned", "finished").sum()
    ).sort("model", "condition")  # fmt: skip


# -- capacity and budget -----------------------------------------------------------------------------------------------
def capacity_figure(run_data: RunData, intervals: Estimates) -> Figure | None:
    """Size against ps and acc under zero-shot, with Spearman's rank correlation; models without published size are absent.

    Models of one family share colour and marker, and are joined.
    """
    names = ["model", "condition", "protocol"]
    sized = points(run_data).filter(condition="zero-shot", protocol="mcqa").select(*names, "parameters")
    rows = sized.join(_rows(run_data, intervals, ["zero-shot"]), on=names, maintain_order="left")
    if rows.is_empty():
        return None
    tests = {
        row["measure"]: row for row in capacity(run_data).filter(condition="zero-shot", protocol="mcqa").to_dicts()
    }
    families: dict[str, list[Row]] = {}
    for row in rows.sort("parameters", "model").iter_rows(named=True):
        families.setdefault(family(row["model"]), []).append(row)
    figure = plot_style.canvas(8.6, 3.2)
    for panel, measure in zip(figure.subplots(1, 2), ("ps", "acc"), strict=True):
        for number, members in enumerate(families.values()):
            _family(panel, members, measure, *plot_style.series(number))
        _sizes(panel)
        panel.set_ylabel(MEASURED[measure])
        panel.set_title(_correlation(tests[measure]), fontsize=7, fontweight="normal", loc="left")
    handles = [_dot(*plot_style.series(number), plot_style.short(name)) for number, name in enumerate(families)]
    figure.legend(handles=_with_pale(handles, rows), loc="outside right upper", fontsize=6.5)
    return figure


def family(model: str) -> str:
    """The model's name without its size: ``qwen2.5-vl-7b`` -> ``qwen2.5-vl``."""
    return re.sub(r"[-_]?[0-9]+(\.[0-9]+)?b$", "", model, flags=re.IGNORECASE) or model


def _family(panel: Axes, members: Sequence[Row], measure: str, colour: str, marker: str) -> None:
    sizes = [row["parameters"] for row in members]
    panel.plot(sizes, [row[measure] for row in members], color=colour, linewidth=0.7, alpha=0.6, zorder=1)
    for row in members:
        shade = colour if _whole(row) else FAINT
        x, low, high = row["parameters"], row[f"{measure}_low"], row[f"{measure}_high"]
        panel.plot([x, x], [low, high], color=shade, linewidth=0.8, alpha=0.7, zorder=2)
        panel.plot(x, row[measure], marker, markersize=4.2, color=shade, zorder=3)


def _sizes(panel: Axes) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("parameters, billions")
    panel.set_ylim(bottom=0)
    panel.grid(axis="y")


def _correlation(test: Row) -> str:
    if test["rho"] is None:
        return f"no rank correlation: {test['reason']}"
    p = "p < 0.001" if test["p"] < 0.001 else f"p = {test['p']:.3f}"
    return f"Spearman's rho {test['rho']:+.2f}, permutation {p}, {test['models']} models"


def budget_figure(run_data: RunData, intervals: Estimates) -> Figure | None:
    """Accuracy, averaged over scenarios, when only so many suggestions are allowed: a panel a model, the others pale behind."""
    rows = budget_averages(run_data).filter(condition="zero-shot", protocol="mcqa")
    if rows.is_empty():
        return None
    whole = {row["model"]: _whole(row) for row in _rows(run_data, intervals, ["zero-shot"]).iter_rows(named=True)}
    curves = {
        str(name): (part["budget"].to_list(), part["acc"].to_list()) for (name,), part in rows.group_by(["model"])
    }
    names = models(run_data, curves)
    across = min(5, len(names))
    down = -(-len(names) // across)
    figure = plot_style.canvas(1.75 * across + 0.5, 1.35 * down + 0.5)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, name in zip(panels, names, strict=False):
        for other in names:
            panel.plot(*curves[other], color="#dcdcdc", linewidth=0.7, drawstyle="steps-post", zorder=1)
        _curve(panel, name, curves[name], whole[name])
    panels[0].set_xlim(0, max(1, *(_settled(curve) for curve in curves.values())) + 0.5)
    panels[0].set_ylim(0, max(1.0, 1.06 * max(max(acc) for _, acc in curves.values())))
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    for panel in panels[max(0, len(names) - across) : len(names)]:
        panel.tick_params(labelbottom=True)
    figure.supxlabel("suggestions allowed", fontsize=8)
    figure.supylabel("accuracy, %", fontsize=8)
    return figure


def _curve(panel: Axes, name: str, curve: tuple[list[int], list[float]], whole: bool) -> None:
    colour, style = (CONDITIONS["history"][0], "-") if whole else ("#777777", "--")
    panel.plot(*curve, style, color=colour, linewidth=1.6, drawstyle="steps-post", zorder=3)
    panel.set_title(plot_style.short(name) + ("" if whole else " (unfinished)"), fontsize=7, loc="left")
    panel.grid(axis="both")


def _settled(curve: tuple[list[int], list[float]]) -> int:
    """The budget from which on a curve is level."""
    return next(budget for budget, acc in zip(*curve, strict=True) if acc == curve[1][-1])


# -- what they share ---------------------------------------------------------------------------------------------------
def _rows(run_data: RunData, intervals: Estimates, conditions: Sequence[str]) -> pl.DataFrame:
    wanted = (pl.col("protocol") == "mcqa") & pl.col("condition").is_in(conditions)
    return _counted(run_data, intervals.averages.filter(wanted))


def _counted(run_data: RunData, averages: pl.DataFrame) -> pl.DataFrame:
    """Averages with planned and finished episodes, so that an unfinished one can be recognised."""
    names = ["model", "condition", "protocol"]
    counts = run_data.rows.group_by(names).agg(pl.col("planned", "finished").sum())
    return averages.join(counts, on=names, how="left", maintain_order="left")


def _whole(row: Row) -> bool:
    return bool(row["finished"] == row["planned"])


def _progress_label(name: str, rows: pl.DataFrame) -> str:
    """The model's label; an unfinished one says how far it is."""
    found = rows.filter(model=name).to_dicts()
    if not found or _whole(found[0]):
        return name
    return f"{plot_style.short(name)} ({100 * found[0]['finished'] // max(1, found[0]['planned'])}% played)"


def _absent(panel: Axes, names: Sequence[str], found: Set[str]) -> None:
    """An empty row says why it is empty."""
    for place, name in enumerate(names):
        if name not in found:
            panel.text(0.03, place, "not played", transform=panel.get_yaxis_transform(), **PALE)


def _rows_of(panel: Axes, names: Sequence[str], title: str) -> None:
    panel.set_yticks(range(len(names)), [name if "% played)" in name else plot_style.short(name) for name in names])
    panel.set_ylim(-0.7, len(names) - 0.3)
    panel.set_title(title, loc="left")


def _legend(figure: Figure, handles: Sequence[Line2D | Patch], *rows: pl.DataFrame) -> None:
    shown = _with_pale(handles, *rows)
    across = max(1, int(figure.get_figwidth() / 1.2))
    lines = -(-len(shown) // across)
    figure.legend(handles=shown, loc="outside upper left", ncols=-(-len(shown) // lines), fontsize=7)


def _with_pale(handles: Sequence[Line2D | Patch], *rows: pl.DataFrame) -> list[Line2D | Patch]:
    """The handles, and what pale means where something is unfinished."""
    pale = any((part["finished"] < part["planned"]).any() for part in rows)
    return [*handles, *([Patch(facecolor=FAINT, label="pale: unfinished")] if pale else [])]


def _dot(colour: str, marker: str, label: str) -> Line2D:
    size = 9 if marker == "|" else 4
    return Line2D([], [], color=colour, marker=marker, linestyle="", markersize=size, markeredgewidth=1.2, label=label)


def _hollow(label: str) -> Line2D:
    colour, marker = CONDITIONS["reference"]
    return Line2D([], [], marker=marker, markerfacecolor="white", markeredgecolor=colour, linestyle="", label=label)
