"""The figures at the width of a page: a row per model, baselines gray at the bottom, unfinished models with their progress.

Every point has its 95% interval, and every number is in the tables. Equal figures give equal bytes.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from actors.text.printable import one_line
from envs.types import Mode
from orchestrator.report.figures import FEWEST
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.paired import comparisons
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import order_models
from sweeps.protocol import ZERO_SHOT

PAGE, TALLEST = 6.75, 9.0
"""Width and largest height of a figure in inches, those of a page in two-column papers."""
HEAD, LEGEND_LINE, LEGEND_ENTRIES = 0.6, 0.17, 4
"""Inches that panels need beside their rows, and a legend's line; entries of that line."""
INK, GRAY, LONGEST_NAME = "#222222", "#8a8a8a", 26
METADATA = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer")}
"""File format -> metadata that is left out, so that equal figures give equal bytes."""
Columns = tuple[str, str, str]
"""Columns of a value and the ends of its interval."""
SERIES, MARKERS = ("#14406b", "#e8893a", "#0f7f58", "#b04a8f", "#8a6d00", "#5aa9e6"), "os^DvPX*<>"


def house_style() -> AbstractContextManager[None]:
    """Return a block in which figures are drawn and saved in the house style; settings outside stay unchanged."""
    return matplotlib.style.context(["default", Path(__file__).with_name("house.mplstyle")])


def new_figure(height: float) -> Figure:
    """Return an empty figure of a page's width and this height in inches, with a constrained layout."""
    figure = Figure(figsize=(PAGE, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def render(figure: Figure, form: str) -> bytes:
    """Return the figure as ``pdf`` (its fonts embedded) or ``svg``, without a date."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format=form, metadata=dict.fromkeys(METADATA[form]))
    return buffer.getvalue()


def series_look(number: int) -> tuple[str, str]:
    """Return color and marker of the ``number``-th series; the first thirty pairs are distinct."""
    return SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)]


def short_label(name: str) -> str:
    """Return a name as a label: on one line, cut if it is too long."""
    line = one_line(name)
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def gray_models(run_data: RunData) -> frozenset[str]:
    """Return the baselines if models were planned too; a run of baselines alone is in color."""
    return frozenset() if set(run_data.rows["model"]) <= run_data.baselines else run_data.baselines


def _rows_figure(
    run_data: RunData, models: Iterable[str], line: float, titles: Sequence[str]
) -> tuple[Figure, list[Axes], list[str]]:
    """Return a figure with a panel per title, and the models from the bottom up, ``line`` inches each, baselines gray."""
    names, gray = order_models(models, run_data.baselines)[::-1], gray_models(run_data)
    figure = new_figure(min(TALLEST, HEAD + 2 * LEGEND_LINE + line * len(names)))
    panels = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
    panels[0].set_yticks(range(len(names)), [_progress_label(run_data, name) for name in names])
    panels[0].set_ylim(-0.6, len(names) - 0.4)
    for label, name in zip(panels[0].get_yticklabels(), names, strict=True):
        label.set_color(GRAY if name in gray else INK)
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title)
    return figure, list(panels), names


def _progress_label(run_data: RunData, model: str) -> str:
    """Return the model's name, with its progress if it is unfinished."""
    cells = run_data.rows.filter(protocol="mcqa", model=model)
    planned, finished = int(cells["planned"].sum()), int(cells["finished"].sum())
    return short_label(model) + (f" ({int(100 * finished / planned)}%)" if finished < planned else "")


def _add_legend(figure: Figure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=LEGEND_ENTRIES)


def _averages(run_data: RunData, conditions: Sequence[str]) -> pl.DataFrame:
    scored = estimate(run_data).averages.drop_nulls("acc")
    return scored.filter(pl.col("condition").is_in(conditions), protocol="mcqa")


def _draw_intervals(panel: Axes, rows: pl.DataFrame, columns: Columns, levels: Sequence[float], **look: Any) -> None:
    """Draw a line or a point per row with its interval; a value without one has a point alone."""
    value, low, high = (rows[name].to_numpy() for name in columns)
    ends = np.nan_to_num(np.abs([value - low, high - value]))
    panel.errorbar(value, levels, xerr=ends, linestyle="", **look)


def shares_figure(
    run_data: RunData, conditions: Sequence[str], shares: Mapping[str, tuple[str, str, str]], label: str
) -> Figure | None:
    """Draw bars of ``figures.toml``; the line on a bar is the interval of the first share."""
    rows = _averages(run_data, conditions).drop_nulls(first := next(iter(shares)))
    if rows["model"].n_unique() < FEWEST:
        return None
    rows = rows.with_columns(share_wrong=pl.col("share_category") - pl.col("share_right"))
    present = [name for name in conditions if name in set(rows["condition"])]
    figure, panels, names = _rows_figure(run_data, rows["model"], 0.15, present)
    for panel, condition in zip(panels, present, strict=True):
        part = rows.filter(condition=condition)
        levels, left = [names.index(model) for model in part["model"]], np.zeros(part.height)
        for share, (name, color, hatch) in shares.items():
            edge: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.3}
            panel.barh(levels, part[share], 0.74, left, color=color, hatch=hatch, label=name, **edge)
            left = left + part[share].to_numpy()
        columns = (first, f"{first}_low", f"{first}_high")
        for color, width in (("white", 2.2), (INK, 1.0)):
            _draw_intervals(panel, part, columns, levels, color=color, elinewidth=width)
        panel.set(xlim=(0, 100), xticks=[0, 50, 100])
    _add_legend(figure)
    figure.supxlabel(f"{label}, averaged over scenarios\n(line: 95% interval of the first share)")
    return figure


def dots_figure(
    run_data: RunData, rows: pl.DataFrame, conditions: Sequence[str], panels: Mapping[str, Columns]
) -> Figure:
    """Draw a point with its interval per model and condition of ``rows``, in a panel per title."""
    figure, axes, names = _rows_figure(run_data, rows["model"], 0.06 + 0.075 * len(conditions), list(panels))
    for panel, columns in zip(axes, panels.values(), strict=True):
        for number, condition in enumerate(conditions):
            part = rows.filter(condition=condition).drop_nulls(columns[0])
            shift, (color, marker) = 0.36 - 0.72 * (number + 0.5) / len(conditions), series_look(number)
            levels = [names.index(model) + shift for model in part["model"]]
            look = {"color": color, "marker": marker, "markersize": 3.3, "elinewidth": 0.9}
            _draw_intervals(panel, part, columns, levels, label=condition, **look)
    _add_legend(figure)
    return figure


def changes_figure(run_data: RunData) -> Figure | None:
    """Draw the change of accuracy and suggestions against zero-shot, averaged over each condition's scenarios."""
    played = [name for name, c in run_data.conditions.items() if c.mode is not Mode.REFERENCE]
    averages = comparisons(run_data).condition_averages
    rows = averages.filter(pl.col("condition").is_in(played), protocol="mcqa")
    if rows["model"].n_unique() < FEWEST:
        return None
    conditions = [name for name in played if name in set(rows["condition"])]
    panels = {
        "accuracy, points": ("difference", "difference_low", "difference_high"),
        "suggestions per episode": ("ps_difference", "ps_low", "ps_high"),
    }
    figure = dots_figure(run_data, rows, conditions, panels)
    for panel in figure.axes:
        panel.axvline(0, color=INK, linewidth=0.7, zorder=1)
    figure.supxlabel("change against zero-shot, with paired 95% intervals")
    return figure


def reference_figure(run_data: RunData) -> Figure | None:
    """Draw accuracy under zero-shot and on the clear image, averaged over scenarios."""
    rows = _averages(run_data, (ZERO_SHOT, "reference"))
    if rows["condition"].n_unique() < 2 or rows["model"].n_unique() < FEWEST:
        return None
    panels = {"accuracy, %, averaged over scenarios, with 95% intervals": ("acc", "acc_low", "acc_high")}
    return dots_figure(run_data, rows, (ZERO_SHOT, "reference"), panels)


FIGURES: dict[str, Callable[[RunData], Figure | None]] = {"conditions": changes_figure, "reference": reference_figure}
"""Name -> function that draws a figure of points; it returns None if the run has nothing to draw."""
