"""The figures of a report, drawn with matplotlib at the width of a page and of a column.

Every figure is a function of the run data; one with fewer than three models is not made: a table says the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from orchestrator.report import plot_style
from orchestrator.report.estimates import estimate
from orchestrator.report.figure_curves import budget_figure, capacity_figure
from orchestrator.report.figure_parts import Drawing, Numbers
from orchestrator.report.figure_rows import (
    actions,
    against_reference,
    changes,
    changes_by_examples,
    share_changes_figure,
)
from orchestrator.report.run_data import RunData, once, opened
from orchestrator.storage import atomic_write

MAKERS: dict[str, Callable[[Drawing], Figure | None]] = {
    "reference": against_reference,
    "actions": actions,
    "conditions": changes,
    "share-changes": share_changes_figure,
    "examples": changes_by_examples,
    "capacity": capacity_figure,
    "budget": budget_figure,
}
"""Name -> what draws it; None where the run has nothing to draw."""


def write_figures(
    run: RunData | Path, data: Path | None = None, baselines: bool = True, cluster: str = ""
) -> list[Path]:
    """Every figure that the run has, into ``figures`` of its folder; the files written, sorted.

    ``run`` is a run folder, or what was read of one. ``NAME.pdf``, ``.svg`` and ``.png`` are as wide as a page (6.75 in),
    ``NAME-column.pdf`` and ``.svg`` as a column (3.25 in). Without ``baselines`` these are left out. Raises RunFolderError
    when the folder is no run.
    """
    run_data = opened(run, data, cluster=cluster)
    place = run_data.folder / "figures"
    place.mkdir(exist_ok=True)
    written: list[Path] = []
    for width, ending, forms in ((plot_style.PAGE, "", ("pdf", "png")), (plot_style.COLUMN, "-column", ("pdf",))):
        for name, figure in figures(run_data, width, baselines).items():
            written += plot_style.save(figure, place, f"{name}{ending}", forms)
        for name, content in svgs(run_data, width, baselines).items():
            written.append(place / f"{name}{ending}.svg")
            atomic_write.write(written[-1], content)
    return sorted(written)


@once
def svgs(run_data: RunData, width: float = plot_style.PAGE, baselines: bool = True) -> dict[str, bytes]:
    """The figures of ``figures`` as SVG; files and the page take the same."""
    return {name: plot_style.svg(figure) for name, figure in figures(run_data, width, baselines).items()}


def figures(run_data: RunData, width: float = plot_style.PAGE, baselines: bool = True) -> dict[str, Figure]:
    """Name -> figure of so many inches, those without cells left out; turn them into files with ``plot_style``."""
    return _figures(run_data, width, baselines)


@once
def _figures(run_data: RunData, width: float, baselines: bool) -> dict[str, Figure]:
    return _drawn(Drawing(_numbers(run_data), width, baselines))


@once
def _numbers(run_data: RunData) -> Numbers:
    return Numbers(run_data, estimate(run_data))


def _drawn(drawing: Drawing) -> dict[str, Figure]:
    made: dict[str, Figure] = {}
    with plot_style.house():
        for name, maker in MAKERS.items():
            if figure := maker(drawing):
                plot_style.lay_out(figure)
                made[name] = figure
    return made
