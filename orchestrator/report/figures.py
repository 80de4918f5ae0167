"""The figures of a report, drawn with matplotlib at the width of a page and of a column.

Every figure is a function of the run data; one with fewer than three models is not made: a table says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from matplotlib.figure import Figure

from orchestrator.report import plot_style
from orchestrator.report.figure_curves import budget_figure, capacity_figure
from orchestrator.report.figure_numbers import Numbers, numbers_of
from orchestrator.report.figure_parts import Drawing
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


WIDTHS = ((plot_style.PAGE, "", ("pdf", "png", "svg")), (plot_style.COLUMN, "-column", ("pdf", "svg")))
"""Inches, end of the names, and formats of the files."""
LARGEST_SVG = 400_000
"""Bytes from which on the page holds a figure as PNG, of ``PAGE_DPI``."""
PAGE_DPI = 110


class Picture(NamedTuple):
    """A figure as ``report.html`` holds it."""

    kind: str
    """``svg+xml`` or ``png``."""
    content: bytes
    width: int
    """In CSS pixels, as ``height``."""
    height: int


class Drawings(Protocol):
    """The drawn figures of a run."""

    def files(self) -> Mapping[str, bytes]:
        """File name -> content, of every width and format."""

    def pictures(self) -> Mapping[str, Picture]:
        """Figure -> what the page shows."""


class DrawnFigures:
    """The figures of a run, each drawn and saved once, when it is first asked for."""

    def __init__(self, numbers: Numbers, baselines: bool = True) -> None:
        """Without ``baselines`` these are left out."""
        self.numbers, self.baselines = numbers, baselines
        self._drawn: dict[float, dict[str, Figure]] = {}
        self._svgs: dict[tuple[float, str], bytes] = {}

    def drawn(self, width: float = plot_style.PAGE) -> dict[str, Figure]:
        """Name -> figure of so many inches, those without cells left out."""
        if width not in self._drawn:
            self._drawn[width] = _drawn(Drawing(self.numbers, width, self.baselines))
        return self._drawn[width]

    def files(self) -> dict[str, bytes]:
        """File name -> content; see ``write_figures``."""
        made: dict[str, bytes] = {}
        for width, end, forms in WIDTHS:
            for name, figure in self.drawn(width).items():
                made |= {f"{name}{end}.{form}": self._content(width, name, figure, form) for form in forms}
        return made

    def pictures(self) -> dict[str, Picture]:
        """Figure -> what the page shows."""
        return {name: self._picture(name, figure) for name, figure in self.drawn().items()}

    def _picture(self, name: str, figure: Figure) -> Picture:
        kind, content = "svg+xml", self._content(plot_style.PAGE, name, figure, "svg")
        if len(content) > LARGEST_SVG:
            kind, content = "png", plot_style.png(figure, PAGE_DPI)
        width, height = (round(96 * inches) for inches in figure.get_size_inches())
        return Picture(kind, content, width, height)

    def _content(self, width: float, name: str, figure: Figure, form: str) -> bytes:
        """An SVG is kept: the files and the page hold the same."""
        if form != "svg":
            return plot_style.FORMS[form](figure)
        if (width, name) not in self._svgs:
            self._svgs[width, name] = plot_style.svg(figure)
        return self._svgs[width, name]


def write_figures(
    run: RunData | Path,
    data: Path | None = None,
    baselines: bool = True,
    cluster: str = "",
    drawn: Drawings | None = None,
) -> list[Path]:
    """Every figure that the run has, into ``figures`` of its folder; the files written, sorted.

    ``run`` is a run folder, or what was read of one. ``NAME.pdf``, ``.svg`` and ``.png`` are as wide as a page (6.75 in),
    ``NAME-column.pdf`` and ``.svg`` as a column (3.25 in). Without ``baselines`` these are left out. ``drawn`` has its
    figures, where they are drawn elsewhere. Raises RunFolderError when the folder is no run.
    """
    run_data = opened(run, data, cluster=cluster)
    place = run_data.folder / "figures"
    place.mkdir(exist_ok=True)
    drawn = drawn or drawn_figures(run_data, baselines)
    written: list[Path] = []
    for name, content in drawn.files().items():
        written.append(place / name)
        atomic_write.write(written[-1], content)
    return sorted(written)


@once
def drawn_figures(run_data: RunData, baselines: bool = True) -> DrawnFigures:
    """The figures of a run; files and the page take the same."""
    return DrawnFigures(numbers_of(run_data), baselines)


def figures(run_data: RunData, width: float = plot_style.PAGE, baselines: bool = True) -> dict[str, Figure]:
    """Name -> figure of so many inches, those without cells left out; turn them into files with ``plot_style``."""
    return drawn_figures(run_data, baselines).drawn(width)


def _drawn(drawing: Drawing) -> dict[str, Figure]:
    made: dict[str, Figure] = {}
    with plot_style.house():
        for name, maker in MAKERS.items():
            if figure := maker(drawing):
                plot_style.lay_out(figure)
                made[name] = figure
    return made
