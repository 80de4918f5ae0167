"""Figures with an axis of size or of budget: capacity against proactiveness, accuracy under a budget of suggestions.

Every point has its 95% interval.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from envs.plural import pluralize
from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.parts import (
    FEWEST,
    LEGEND_LINE,
    FigureContext,
    Handle,
    add_legend,
    has_enough_models,
    legend_dot,
    legend_height,
    style_notes,
    with_interval,
)
from orchestrator.report.figures.style import CONDITIONS, FAINT, GRAY
from orchestrator.report.tables.parts import Row, by_column
from orchestrator.report.wording import format_p, format_signed
from sweeps.protocol import ZERO_SHOT

MEASURES = {"ps": "suggestions per episode", "acc": "accuracy, %"}


# -- capacity ----------------------------------------------------------------------------------------------------------
def capacity_figure(context: FigureContext) -> Figure | None:
    """Draw size against ps and acc under zero-shot, with Spearman's rank correlation, for models of published size.

    Models of one family share color and marker, and are joined by a line.
    """
    names = ["model", "condition", "protocol"]
    sized = context.numbers.sizes.select(*names, "parameters")
    rows = context.averages([ZERO_SHOT]).join(sized, on=names).sort("parameters", "model")
    if not has_enough_models(rows["model"]):
        return None
    tests = by_column(context.numbers.capacity.filter(condition=ZERO_SHOT, protocol="mcqa"), "measure")
    families: dict[str, list[Row]] = {}
    for row in rows.iter_rows(named=True):
        families.setdefault(model_family(row["model"]), []).append(row)
    looks = {name: plot_style.series_look(number) for number, name in enumerate(families)}
    entries = [legend_dot(look, plot_style.short_label(name)) for name, look in looks.items()]
    handles = [*entries, *style_notes(context, rows["model"])]
    down, across = (1, 2) if context.page else (2, 1)
    figure = plot_style.new_figure(context.width, 2.2 * down + legend_height(context.width, handles))
    for panel, measure in zip(figure.subplots(down, across, squeeze=False).ravel(), MEASURES, strict=True):
        for name, members in families.items():
            _draw_family(context, panel, members, measure, looks[name])
        _format_size_axis(panel)
        panel.set_ylabel(MEASURES[measure])
        panel.set_title(_correlation(tests[measure]), fontweight="normal")
    add_legend(figure, handles, "outside lower left")
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
        alpha = context.opacity(row)
        x, (value, low, high) = row["parameters"], with_interval(row, measure)
        panel.plot([x, x], [low, high], color=color, linewidth=0.8, alpha=0.7 * alpha, zorder=2)
        panel.plot(x, value, marker, markersize=4.0, color=color, alpha=alpha, zorder=3)


def _format_size_axis(panel: Axes) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("parameters, billions (log scale)")
    panel.set_ylim(bottom=0)
    panel.grid(axis="y")


def _correlation(test: Row) -> str:
    if test["rho"] is None:
        return f"no rank correlation: {test['reason']}"
    p = f"p = {format_p(test['p'])}".replace("= <", "< ")
    return f"Spearman's rho {format_signed(test['rho'], 2)}, {p}, {pluralize(test['models'], 'model')}"


# -- budget ------------------------------------------------------------------------------------------------------------
def budget_figure(context: FigureContext) -> Figure | None:
    """Draw accuracy averaged over scenarios against the suggestions allowed: a panel per model, with all others behind it.

    Baselines have a panel only if there are fewer than three models.
    """
    rows = context.rows(context.numbers.budget).filter(condition=ZERO_SHOT)
    if not has_enough_models(rows["model"]):
        return None
    curves = _curves(rows)
    names = context.models(curves)[::-1]
    models = [name for name in names if not context.is_gray(name)]
    names = models if len(models) >= FEWEST else names
    across = min(4 if context.page else 2, len(names))
    down = -(-len(names) // across)
    height = min(plot_style.TALLEST, down * (1.25 if context.page else 1.0) + 0.35 + LEGEND_LINE)
    figure = plot_style.new_figure(context.width, height)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, name in zip(panels, names, strict=False):
        for other in curves.values():
            panel.plot(other["budget"], other["acc"], color=FAINT, linewidth=0.6, drawstyle="steps-post", zorder=1)
        _draw_curve(context, panel, name, curves[name])
    _budget_axes(list(panels[: len(names)]), across, curves)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    figure.supxlabel("suggestions allowed")
    figure.supylabel("accuracy, %")
    _budget_legend(figure)
    return figure


def _curves(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the curve of each model, up to one budget past the point where all are level."""
    curves = {str(name): part.sort("budget") for (name,), part in rows.group_by(["model"])}
    longest = max(1, *(_level_budget(curve) for curve in curves.values())) + 1
    return {name: curve.filter(pl.col("budget") <= longest) for name, curve in curves.items()}


def _draw_curve(context: FigureContext, panel: Axes, name: str, curve: pl.DataFrame) -> None:
    color = GRAY if context.is_gray(name) else CONDITIONS[ZERO_SHOT][0]
    style = "-" if context.progress(model=name, condition=ZERO_SHOT) == 1 else "--"
    budget = curve["budget"]
    band: dict[str, Any] = {"step": "post", "color": color, "alpha": 0.25, "linewidth": 0, "zorder": 2}
    panel.fill_between(budget, curve["acc_low"], curve["acc_high"], **band)
    panel.plot(budget, curve["acc"], style, color=color, linewidth=1.3, drawstyle="steps-post", zorder=3)
    panel.set_title(context.label(model=name, condition=ZERO_SHOT), fontweight="normal", pad=2)
    panel.grid(axis="both")


def _budget_axes(panels: Sequence[Axes], across: int, curves: dict[str, pl.DataFrame]) -> None:
    """Give all panels the same scales, and ticks to the last panel of each column."""
    panels[0].set_xlim(0, max(float(curve["budget"].max()) for curve in curves.values()) - 0.5)  # type: ignore[arg-type]
    panels[0].set_ylim(0, 1.04 * max(1.0, *(float(curve["acc_high"].max()) for curve in curves.values())))  # type: ignore[arg-type]
    for panel in panels[-across:]:
        panel.tick_params(labelbottom=True)


def _budget_legend(figure: Figure) -> None:
    color = CONDITIONS[ZERO_SHOT][0]
    handles: list[Handle] = [
        Line2D([], [], color=color, linewidth=1.3, label="the model"),
        Patch(facecolor=color, alpha=0.25, label="95% interval"),
        Line2D([], [], color=FAINT, linewidth=0.8, label="all other models"),
    ]
    add_legend(figure, handles)


def _level_budget(curve: pl.DataFrame) -> int:
    """Return the smallest budget with the last accuracy of a curve."""
    level = np.asarray(curve["acc"] == curve["acc"][-1])
    return int(curve["budget"][int(level.argmax())])
