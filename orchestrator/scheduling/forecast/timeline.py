"""The timeline picture of a forecast: one row per GPU, one bar per worker.

Bars in one row never overlap; workers that share a GPU have quarters of its row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path

from orchestrator.planning.plan import JUDGE
from orchestrator.scheduling.forecast.simulator import SimulatedSweep, WorkerSpan
from orchestrator.scheduling.nodes import Node

HOUR = 3600.0
PALETTE = (
    "#760027", "#89ebff", "#143bff", "#eb8900", "#ebd8b1", "#9d6289", "#4e2789", "#899d89", "#b10014", "#9db1ff",
    "#b1eb27", "#144e4e", "#4e894e", "#2789ff", "#c489b1", "#14c462", "#764e9d", "#4e624e", "#eb2714",
)  # fmt: skip
"""Nineteen colors, one for each of the paper's open models, distinguishable with and without color blindness.

A search maximized the smallest distance between two colors (CAM02-UCS) under full color vision, protanopia, deuteranopia and
tritanopia. Each color is the farthest from those before it, so that the first few differ most.
"""
QUARTERS = 4
"""A GPU's row is divided into quarters, the smallest part of a GPU that a worker can use."""
GRAY = "#bbbbbb"
"""The color of judges."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One worker and the rows that it takes."""

    span: WorkerSpan
    rows: tuple[int, ...]
    """Numbers of its GPUs, counted from 0 through all nodes."""
    quarters: tuple[int, ...] = ()
    """For a worker that shares a GPU: the quarters of the row that it takes, from 0."""


def layout_bars(spans: Iterable[WorkerSpan], nodes: Sequence[Node]) -> list[Bar]:
    """Assign each worker GPUs of its nodes, adjacent ones if possible; raises ValueError if a node has too few."""
    last_rows = accumulate(node.gpus for node in nodes)
    first_rows = {node.name: end - node.gpus for node, end in zip(nodes, last_rows, strict=True)}
    free = {node.name: [0.0] * node.gpus for node in nodes}
    bars, gpu_spans = [], sorted((span for span in spans if span.gpus), key=lambda span: (span.began, span.slot))
    ends: dict[int | None, float] = {}
    for span in gpu_spans:
        ends[span.place.shared] = max(span.ended, ends.get(span.place.shared, 0.0))
    shared: dict[int, tuple[list[int], list[float]]] = {}
    for span in gpu_spans:
        if span.place.shared in shared:
            lanes, quarters = shared[span.place.shared]
        else:
            lanes, quarters = list[int](), [0.0] * QUARTERS
            for node in span.place.nodes:
                taken = _lanes(free[node], span, node)
                for lane in taken:
                    free[node][lane] = span.ended if span.place.shared is None else ends[span.place.shared]
                lanes += [first_rows[node] + lane for lane in taken]
            if span.place.shared is not None:
                shared[span.place.shared] = lanes, quarters
        part = () if span.place.shared is None else _take_quarters(quarters, span)
        bars.append(Bar(span, tuple(lanes), part))
    return bars


def _take_quarters(until: list[float], span: WorkerSpan) -> tuple[int, ...]:
    """Reserve quarters of a shared GPU for a worker and return them; raises ValueError if too few are free.

    ``until``: the time at which each quarter is free.
    """
    idle = [number for number, when in enumerate(until) if when <= span.began][: int(span.gpus * QUARTERS)]
    if len(idle) < span.gpus * QUARTERS:
        raise ValueError(
            f"a shared GPU of {span.place.node} has no room for {span.group}, which needs {span.gpus:g} of it"
        )
    for number in idle:
        until[number] = span.ended
    return tuple(idle)


def _lanes(until: Sequence[float], span: WorkerSpan, node: str) -> list[int]:
    """Return the first run of adjacent free GPUs of a node for a worker, else any free ones.

    ``until``: the time at which each GPU is free.
    """
    idle = [lane for lane, when in enumerate(until) if when <= span.began]
    width = max(1, int(span.place.share_of(node, span.gpus)))
    for start in range(len(idle) - width + 1):
        if idle[start + width - 1] - idle[start] == width - 1:
            return idle[start : start + width]
    if len(idle) < width:
        raise ValueError(f"{node} has {len(idle)} GPUs free, {span.group} takes {width}")
    return idle[:width]


def draw_timeline(simulated: SimulatedSweep, nodes: Sequence[Node], path: Path, title: str) -> None:
    """Draw the workers of a simulation and write the picture (PNG); raises OSError if the file cannot be written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = layout_bars(simulated.spans, nodes)
    rows = sum(node.gpus for node in nodes)
    by_time = sorted(simulated.spans, key=lambda span: span.began)
    names = list(dict.fromkeys(span.group for span in by_time if span.gpus))
    models = [name for name in names if not name.startswith(JUDGE)]
    colors = dict.fromkeys(names, GRAY) | {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(models)}
    figure, axes = pyplot.subplots(figsize=(15, max(4.5, 1.6 + 0.16 * rows, 0.27 * len(names) + 1.2)), dpi=110)
    for bar in bars:
        _bar(axes, bar, colors[bar.span.group], simulated.makespan)
    _decorate(axes, nodes, simulated, title)
    handles = [matplotlib.patches.Patch(color=colors[name], label=name) for name in names]
    handles.append(matplotlib.patches.Patch(facecolor="white", edgecolor="#666", hatch="////", label="starting"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, format="png")
    pyplot.close(figure)


def _bar(axes, bar: Bar, color: str, makespan: float) -> None:  # type: ignore[no-untyped-def]  # matplotlib has no types
    """Draw one rectangle per run of adjacent rows, hatched while the worker starts, with its group's name if there is room."""
    span, ready = bar.span, bar.span.ready if bar.span.ready is not None else bar.span.ended
    for low, high in _heights(bar):
        height, middle = high - low, (low + high) / 2
        common = {"height": height * (0.96 if height > 1 else 0.88), "edgecolor": "white", "linewidth": 0.5}
        axes.barh(middle, (ready - span.began) / HOUR, left=span.began / HOUR, color=color, hatch="/////", **common)
        axes.barh(middle, (span.ended - ready) / HOUR, left=ready / HOUR, color=color, **common)
        if span.ended - span.began > 0.0085 * makespan * len(span.group):
            center = ((span.began + span.ended) / 2 / HOUR, middle)
            axes.text(*center, span.group, ha="center", va="center", fontsize=7.5, color=_ink(color))


def _ink(color: str) -> str:
    """Return black or white, whichever has more contrast with the color (WCAG 2.2, relative luminance 0.179)."""
    from matplotlib.colors import to_rgb

    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return "black" if 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.179 else "white"


def _heights(bar: Bar) -> list[tuple[float, float]]:
    """Return the vertical extents of the bar's rectangles; row 0 reaches from -0.5 to 0.5."""
    if not bar.quarters:
        return [(low - 0.5, high + 0.5) for low, high in _runs(bar.rows)]
    top = bar.rows[0] - 0.5
    return [(top + low / QUARTERS, top + (high + 1) / QUARTERS) for low, high in _runs(bar.quarters)]


def _runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    runs = [[row for _, row in run] for _, run in groupby(enumerate(rows), lambda item: item[1] - item[0])]
    return [(run[0], run[-1]) for run in runs]


def _decorate(axes, nodes: Sequence[Node], simulated: SimulatedSweep, title: str) -> None:  # type: ignore[no-untyped-def]
    first = 0
    ticks: dict[float, str] = {}
    for node in nodes:
        ticks[first + (node.gpus - 1) / 2] = node.name
        axes.axhline(first - 0.5, color="#333", linewidth=0.8)
        first += node.gpus
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylim(first - 0.5, -0.5)
    axes.set_xlim(0, simulated.makespan * 1.01 / HOUR)
    axes.axvline(simulated.bound.seconds / HOUR, color="black", linestyle="--", linewidth=1)
    axes.set_xlabel("hours (dashed: lower bound); one row per GPU")
    axes.set_title(title, loc="left", fontsize=11)
