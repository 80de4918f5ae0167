"""The figure of operating curves: accuracy over suggestions by scenario, with each model's own point."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from envs import in_paper_order
from orchestrator.report.figures import plots
from orchestrator.report.run_data import RunData
from proactive_operating.cells import operating_cells
from proactive_operating.summary import Summary

Series = tuple[str, str]
"""Model and condition."""
MOST_CURVES = 8
"""Most curves that a reader can tell apart in a panel."""


def operating_figure(points: pl.DataFrame, run_data: RunData) -> Figure | None:
    """Draw each model's curve per scenario, with its own point, the greedy point and uniform chance; None without curves."""
    cells = [cell for cell in operating_cells(run_data) if cell.scored]
    series = dict.fromkeys((cell.model, cell.condition) for cell in cells)
    names = [name for name in series if name[0] not in plots.gray_models(run_data)][:MOST_CURVES]
    if not names:
        return None
    looks = {name: plots.series_look(number) for number, name in enumerate(names)}
    hollow = Line2D(
        [], [], color=plots.INK, marker="o", linewidth=0, fillstyle="none", markersize=4, label="hollow: greedy"
    )
    chance = Line2D([], [], color=plots.GRAY, marker="x", linewidth=0, markersize=5, label="uniform chance")
    handles = [*_curve_handles(looks), hollow, chance]
    scenarios = in_paper_order(cell.scenario for cell in cells)
    across = min(4, len(scenarios))
    down = -(-len(scenarios) // across)
    height = min(plots.TALLEST, down * 1.45 + 0.3 + plots.LEGEND_LINE * -(-len(handles) // plots.LEGEND_ENTRIES))
    figure = plots.new_figure(height)
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, scenario in zip(panels, scenarios, strict=False):
        for cell in cells:
            if cell.scenario == scenario and (look := looks.get((cell.model, cell.condition))):
                own = points.filter(scenario=scenario, model=cell.model, condition=cell.condition)
                _draw_curve(panel, cell.summary, own, look)
        at_chance = points.filter(scenario=scenario).select("chance_ps", "chance_acc").row(0)
        panel.plot(*at_chance, "x", color=plots.GRAY, markersize=5, zorder=3)
        panel.set_title(scenario, pad=2)
        panel.set_ylim(0, 104)
        panel.grid(axis="both")
    for panel in panels[len(scenarios) :]:
        panel.set_visible(False)
    figure.supxlabel("suggestions per episode")
    figure.supylabel("accuracy, %")
    figure.legend(handles=handles, loc="outside upper left", ncols=plots.LEGEND_ENTRIES)
    return figure


def value_figure(values: pl.DataFrame, run_data: RunData) -> Figure | None:
    """Draw what each model's play is worth over the price of a question: its own point, and the best will to ask."""
    means = values.filter(pl.col("scenario").is_null(), ~pl.col("model").is_in(list(plots.gray_models(run_data))))
    series = means.select("model", "condition").unique(maintain_order=True).rows()[:MOST_CURVES]
    if not series:
        return None
    looks = {name: plots.series_look(number) for number, name in enumerate(series)}
    figure = plots.new_figure(2.4)
    panel = figure.subplots()
    for (model, condition), (color, _) in looks.items():
        rows = means.filter(model=model, condition=condition)
        panel.plot(rows["price"], rows["best"], color=color, linewidth=1.1)
        panel.plot(rows["price"], rows["own"], color=color, linewidth=0.8, linestyle="--")
    panel.grid(axis="both")
    panel.set_ylim(bottom=min(0.0, float(means["best"].min() or 0.0)))  # type: ignore[arg-type]
    panel.set_xlabel("price of a question, points")
    panel.set_ylabel("accuracy less price, %")
    dashed = Line2D([], [], color=plots.INK, linestyle="--", linewidth=0.8, label="dashed: own point")
    handles = [*_curve_handles(looks, marked=False), dashed]
    figure.legend(handles=handles, loc="outside upper left", ncols=plots.LEGEND_ENTRIES)
    return figure


def _draw_curve(panel: Axes, summary: Summary, points: pl.DataFrame, look: tuple[str, str]) -> None:
    color, marker = look
    accuracy, suggestions = 100 * summary.accuracy.mean(axis=0), summary.suggestions.mean(axis=0)
    panel.plot(suggestions, accuracy, color=color, linewidth=1.1, zorder=2)
    for row in points.iter_rows(named=True):
        panel.plot([row["ps"]] * 2, [row["acc_low"], row["acc_high"]], color=color, linewidth=0.8, zorder=3)
        panel.plot(row["ps"], row["acc"], marker, color=color, markersize=4, zorder=4)
        if row["greedy_acc"] is not None:
            at = row["greedy_ps"], row["greedy_acc"]
            panel.plot(*at, marker, color=color, markersize=4, fillstyle="none", zorder=4)


def _curve_handles(looks: dict[Series, tuple[str, str]], marked: bool = True) -> list[Line2D]:
    several = len({condition for _, condition in looks}) > 1
    return [
        Line2D([], [], color=color, marker=marker if marked else "", linewidth=1.1, markersize=4,
               label=plots.short_label(f"{model}, {condition}" if several else model))
        for (model, condition), (color, marker) in looks.items()
    ]  # fmt: skip
