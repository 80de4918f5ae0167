"""Draws figures for the page, for files and for MLflow; matplotlib, which takes a second to import, is loaded on demand."""

from __future__ import annotations

import tomllib
from base64 import b64encode
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.report.figures import FEWEST
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import offered_tables
from orchestrator.storage import safe_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = tomllib.loads(Path(__file__).with_name("figures.toml").read_text("utf-8"))
CAPTIONS: dict[str, str] = {name: figure["caption"] for name, figure in FIGURES.items()}
SHOWN = tuple(name for name, figure in FIGURES.items() if figure.get("on_page"))
"""Figures of the page."""
FORMATS = ("pdf", "svg")


def draw_figures(run_data: RunData, names: Collection[str] = tuple(CAPTIONS)) -> dict[str, Figure]:
    """Return the figures of these names and of installed packages, without those that have too few models."""
    offered = {table.name: table.figure for table in offered_tables(run_data) if table.figure}
    if not offered and run_data.rows["model"].n_unique() < FEWEST:
        return {}
    from orchestrator.report.figures import plots

    bars = {name: partial(plots.shares_figure, **about["bars"]) for name, about in FIGURES.items() if "bars" in about}
    functions = {name: (bars | plots.FIGURES)[name] for name in FIGURES if name in names} | offered
    with plots.house_style():
        drawn = {name: figure for name, draw in functions.items() if (figure := draw(run_data))}
        for figure in drawn.values():
            figure.draw_without_rendering()
            figure.set_layout_engine(None)  # with one, matplotlib draws a figure twice for each file
    return drawn


def figure_images(run_data: RunData, names: Collection[str] = SHOWN) -> dict[str, str]:
    """Return these figures as data URIs for the page."""
    return {name: _data_uri(figure) for name, figure in draw_figures(run_data, names).items()}


def _data_uri(figure: Figure) -> str:
    from orchestrator.report.figures.plots import render

    return f"data:image/svg+xml;base64,{b64encode(render(figure, 'svg')).decode()}"


def write_figures(run_data: RunData) -> list[Path]:
    """Write every figure as ``figures/NAME.pdf`` and ``.svg``, as wide as a page (6.75 in), and return the sorted paths."""
    drawn = draw_figures(run_data)
    from orchestrator.report.figures.plots import render

    folder = run_data.folder / "figures"
    folder.mkdir(exist_ok=True)
    files = {folder / f"{name}.{form}": render(figure, form) for name, figure in drawn.items() for form in FORMATS}
    for path, content in files.items():
        safe_write.write(path, content)
    return sorted(files)
