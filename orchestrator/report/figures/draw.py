"""The figures of a report, drawn with matplotlib at the width of a page and of a column.

Every figure is a function of the run data; with fewer than three models it is left out, because a table says the same.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from matplotlib.figure import Figure

from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.curves import budget_figure, capacity_figure
from orchestrator.report.figures.numbers import FigureNumbers, figure_numbers
from orchestrator.report.figures.parts import FigureContext
from orchestrator.report.figures.rows import actions_figure, changes_figure, reference_figure, share_changes_figure
from orchestrator.report.figures.style import with_dark_colors
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.storage import safe_write

FIGURES: dict[str, Callable[[FigureContext], Figure | None]] = {
    "reference": reference_figure,
    "actions": actions_figure,
    "conditions": partial(changes_figure, everywhere=True),
    "share-changes": share_changes_figure,
    "examples": partial(changes_figure, everywhere=False),
    "capacity": capacity_figure,
    "budget": budget_figure,
}
"""Name -> function that draws the figure; it returns None if the run has nothing to draw."""
WIDTHS = ((plot_style.PAGE, "", ("pdf", "png", "svg")), (plot_style.COLUMN, "-column", ("pdf", "svg")))
"""Width in inches, suffix of the file names, and file formats."""
LARGEST_SVG = 400_000
"""Bytes above which the page holds a figure as PNG."""


class FigureImage(NamedTuple):
    """A figure as it is in ``report.html``."""

    kind: str
    """``svg+xml`` or ``png``."""
    content: bytes
    width: int
    """In CSS pixels, like ``height``."""
    height: int

    @property
    def uri(self) -> str:
        return f"data:image/{self.kind};base64,{b64encode(self.content).decode()}"


class FigureSet(Protocol):
    """The figures of a run as files and as images of the page."""

    def files(self) -> Mapping[str, bytes]:
        """Return the content of each file, in every width and format."""

    def images(self) -> Mapping[str, FigureImage]:
        """Return the image of each figure for the page."""


class RunFigures:
    """The figures of a run, each drawn and saved once, when it is first needed."""

    def __init__(self, numbers: FigureNumbers, baselines: bool = True) -> None:
        """Draw baselines too if ``baselines``."""
        self.numbers, self.baselines = numbers, baselines
        self._figures: dict[float, dict[str, Figure]] = {}
        self._svgs: dict[tuple[float, str], bytes] = {}

    def figures(self, width: float = plot_style.PAGE) -> dict[str, Figure]:
        """Return the figures of this width in inches, without those that have no cells."""
        if width not in self._figures:
            context = FigureContext(self.numbers, width, self.baselines)
            with plot_style.house_style():
                drawn = {
                    name: figure
                    for name, draw in {**FIGURES, **self.numbers.offered}.items()
                    if (figure := draw(context))
                }
                for figure in drawn.values():
                    plot_style.lay_out(figure)
            self._figures[width] = drawn
        return self._figures[width]

    def files(self) -> dict[str, bytes]:
        """Return the content of each file; see ``write_figures``."""
        return {
            f"{name}{end}.{form}": self._content(width, name, figure, form)
            for width, end, forms in WIDTHS
            for name, figure in self.figures(width).items()
            for form in forms
        }

    def images(self) -> dict[str, FigureImage]:
        """Return the image of each figure for the page."""
        return {name: self._image(name, figure) for name, figure in self.figures().items()}

    def _image(self, name: str, figure: Figure) -> FigureImage:
        kind, content = "svg+xml", self._content(plot_style.PAGE, name, figure, "svg")
        if len(content) > LARGEST_SVG:
            kind, content = "png", plot_style.render(figure, "png")
        else:
            content = with_dark_colors(content)
        width, height = (round(96 * inches) for inches in figure.get_size_inches())
        return FigureImage(kind, content, width, height)

    def _content(self, width: float, name: str, figure: Figure, form: str) -> bytes:
        if form != "svg":
            return plot_style.render(figure, form)
        if (width, name) not in self._svgs:  # the files and the page hold the same SVG
            self._svgs[width, name] = plot_style.render(figure, "svg")
        return self._svgs[width, name]


def write_figures(run_data: RunData, figures: FigureSet | None = None) -> list[Path]:
    """Write every figure into ``figures/`` and return the sorted paths; pass ``figures`` if another process draws them.

    ``NAME.pdf``, ``.svg`` and ``.png`` are as wide as a page (6.75 in), ``NAME-column.pdf`` and ``.svg`` as a column (3.25 in).
    """
    folder = run_data.folder / "figures"
    folder.mkdir(exist_ok=True)
    paths = []
    for name, content in (figures or run_figures(run_data)).files().items():
        paths.append(folder / name)
        safe_write.write(paths[-1], content)
    return sorted(paths)


@cached_per_run
def run_figures(run_data: RunData, baselines: bool = True) -> RunFigures:
    """Return the figures of a run, the same object for its files and its page."""
    return RunFigures(figure_numbers(run_data), baselines)
