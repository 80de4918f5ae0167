"""Figures with an axis of size or of budget: capacity against proactiveness, accuracy under a budget of suggestions.

Every point has its 95% interval.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from orchestrator.report import plot_style
from orchestrator.report.figure_parts import (
    FEWEST,
    LEGEND_LINE,
    Drawing,
    Handle,
    Row,
    dot,
    enough,
    estimate_of,
    legend,
    legend_height,
    remarks,
)
from orchestrator.report.plot_style import CONDITIONS, FAINT, GREY
from orchestrator.report.wording import counted, signed

ZERO_SHOT = "zero-shot"
MEASURED = {"ps": "suggestions an episode", "acc": "accuracy, %"}


# -- capacity ----------------------------------------------------------------------------------------------------------
def capacity_figure(drawing: Drawing) -> Figure | None:
    """Size against ps and acc under zero-shot, with Spearman's rank correlation; models without published size are absent.

    Models of one family share colour and marker, and are joined.
    """
    names = ["model", "condition", "protocol"]
    sized = drawing.numbers.sizes.select(*names, "parameters")
    rows = drawing.averages([ZERO_SHOT]).join(sized, on=names).sort("parameters", "model")
    if not enough(rows["model"]):
        return None
    tests = {
        row["measure"]: row for row in drawing.numbers.capacity.filter(condition=ZERO_SHOT, protocol="mcqa").to_dicts()
    }
    families: dict[str, list[Row]] = {}
    for row in rows.iter_rows(named=True):
        families.setdefault(family(row["model"]), []).append(row)
    looks = [dot(plot_style.series(number), plot_style.short(name)) for number, name in enumerate(families)]
    handles = [*looks, *remarks(drawing, rows["model"])]
    down, across = (1, 2) if drawing.page else (2, 1)
    figure = plot_style.canvas(drawing.width, 2.2 * down + legend_height(drawing.width, handles))
    for panel, measure in zip(figure.subplots(down, across, squeeze=False).ravel(), MEASURED, strict=True):
        for number, members in enumerate(families.values()):
            _family(drawing, panel, members, measure, plot_style.series(number))
        _sizes(panel)
        panel.set_ylabel(MEASURED[measure])
        panel.set_title(_correlation(tests[measure]), fontweight="normal")
    legend(figure, handles, "outside lower left")
    return figure


def family(model: str) -> str:
    """The model's name without its size: ``qwen2.5-vl-7b`` -> ``qwen2.5-vl``."""
    return re.sub(r"[-_]?[0-9]+(\.[0-9]+)?b$", "", model, flags=re.IGNORECASE) or model


def _family(drawing: Drawing, panel: Axes, members: Sequence[Row], measure: str, look: tuple[str, str]) -> None:
    colour, marker = look
    sizes = [row["parameters"] for row in members]
    panel.plot(sizes, [row[measure] for row in members], color=colour, linewidth=0.7, alpha=0.6, zorder=1)
    for row in members:
        alpha = drawing.strength(row)
        x, (value, low, high) = row["parameters"], estimate_of(row, measure)
        panel.plot([x, x], [low, high], color=colour, linewidth=0.8, alpha=0.7 * alpha, zorder=2)
        panel.plot(x, value, marker, markersize=4.0, color=colour, alpha=alpha, zorder=3)


def _sizes(panel: Axes) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("parameters, billions (log scale)")
    panel.set_ylim(bottom=0)
    panel.grid(axis="y")


def _correlation(test: Row) -> str:
    if test["rho"] is None:
        return f"no rank correlation: {test['reason']}"
    p = "p < 0.001" if test["p"] < 0.001 else f"p = {test['p']:.3f}"
    return f"Spearman's rho {signed(test['rho'], 2)}, {p}, {counted(test['models'], 'model')}"


# -- budget ------------------------------------------------------------------------------------------------------------
def budget_figure(drawing: Drawing) -> Figure | None:
    """Accuracy, averaged over scenarios, when only so many suggestions are allowed: a panel a model, all others behind it.

    Baselines are behind only, unless there are fewer than three models.
    """
    rows = drawing.rows(drawing.numbers.budget).filter(condition=ZERO_SHOT)
    if not enough(rows["model"]):
        return None
    curves = _curves(rows)
    names = drawing.models(curves)[::-1]
    real = [name for name in names if not drawing.is_grey(name)]
    names = real if len(real) >= FEWEST else names
    across = min(4 if drawing.page else 2, len(names))
    down = -(-len(names) // across)
    height = min(plot_style.TALLEST, down * (1.25 if drawing.page else 1.0) + 0.35 + LEGEND_LINE)
    figure = plot_style.canvas(drawing.width, height)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, name in zip(panels, names, strict=False):
        for other in curves.values():
            panel.plot(other["budget"], other["acc"], color=FAINT, linewidth=0.6, drawstyle="steps-post", zorder=1)
        _curve(drawing, panel, name, curves[name])
    _budget_axes(list(panels[: len(names)]), across, curves)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    figure.supxlabel("suggestions allowed")
    figure.supylabel("accuracy, %")
    _budget_legend(figure)
    return figure


def _curves(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Model -> its curve, up to one budget past that from which on all are level."""
    curves = {str(name): part.sort("budget") for (name,), part in rows.group_by(["model"])}
    longest = max(1, *(_settled(curve) for curve in curves.values())) + 1
    return {name: curve.filter(pl.col("budget") <= longest) for name, curve in curves.items()}


def _curve(drawing: Drawing, panel: Axes, name: str, curve: pl.DataFrame) -> None:
    colour = GREY if drawing.is_grey(name) else CONDITIONS[ZERO_SHOT][0]
    style = "-" if drawing.played(model=name, condition=ZERO_SHOT) == 1 else "--"
    panel.fill_between(
        curve["budget"],
        curve["acc_low"],
        curve["acc_high"],
        step="post",
        color=colour,
        alpha=0.25,
        linewidth=0,
        zorder=2,
    )
    panel.plot(curve["budget"], curve["acc"], style, color=colour, linewidth=1.3, drawstyle="steps-post", zorder=3)
    panel.set_title(drawing.label(model=name, condition=ZERO_SHOT), fontweight="normal", pad=2)
    panel.grid(axis="both")


def _budget_axes(panels: Sequence[Axes], across: int, curves: dict[str, pl.DataFrame]) -> None:
    """The same scales everywhere, up to where the last curve is level; ticks under every column's last panel."""
    panels[0].set_xlim(0, max(float(curve["budget"].max()) for curve in curves.values()) - 0.5)  # type: ignore[arg-type]
    panels[0].set_ylim(0, 1.04 * max(1.0, *(float(curve["acc_high"].max()) for curve in curves.values())))  # type: ignore[arg-type]
    for panel in panels[-across:]:
        panel.tick_params(labelbottom=True)


def _budget_legend(figure: Figure) -> None:
    colour = CONDITIONS[ZERO_SHOT][0]
    handles: list[Handle] = [
        Line2D([], [], color=colour, linewidth=1.3, label="the model"),
        Patch(facecolor=colour, alpha=0.25, label="95% interval"),
        Line2D([], [], color=FAINT, linewidth=0.8, label="all others"),
    ]
    legend(figure, handles)


def _settled(curve: pl.DataFrame) -> int:
    """The budget from which on a curve is level."""
    level = np.asarray(curve["acc"] == curve["acc"][-1])
    return int(curve["budget"][int(level.argmax())])
