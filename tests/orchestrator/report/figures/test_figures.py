"""Every figure is drawn from a run of enough models, looks as golden.txt says, and equal runs give equal bytes.

``UPDATE_GOLDEN=1 pytest tests/orchestrator/report/figures`` writes golden.txt anew.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from numpy.typing import ArrayLike

from actors.engine.baselines import Baseline
from orchestrator.report.figures.draw import CAPTIONS, draw_figures, figure_images, write_figures
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.read_run import read_run
from tests.goldens import read_golden
from tests.orchestrator.report.runs import play_sweep, sweep

GOLDEN = Path(__file__).with_name("golden.txt")
MODELS = {"llava-ov-7b": "uniform", "internvl3-8b": "ask-properly", "qwen2.5-vl-7b": "guess"}


def test_every_figure_is_drawn_with_equal_bytes(demo_data, tmp_path, monkeypatch):
    wanted = sweep(demo_data, [*MODELS, "oracle"], ["zero-shot", "hint", "icl-1", "random-proactive", "reference"])
    folder = play_sweep(tmp_path / "run", wanted, backends={name: Baseline(policy) for name, policy in MODELS.items()})
    paths = write_figures(run := read_run(folder))
    images = figure_images(run, ["answer"])

    assert {path.stem for path in paths} == set(CAPTIONS) and all(path.stat().st_size for path in paths)
    assert images == figure_images(read_run(folder), ["answer"])
    written = [path.read_bytes() for path in paths]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")  # another time, for matplotlib
    assert [path.read_bytes() for path in write_figures(run)] == written
    assert images["answer"].startswith("data:image/svg+xml")
    figures = draw_figures(run)
    shown = "\n".join(f"{name}: {line}" for name, figure in figures.items() for line in describe(figure)) + "\n"
    assert read_golden(GOLDEN, shown) == shown
    assert_bars_hold_the_scores(run, "answer", "asks", ["zero-shot", "hint"])
    assert_bars_hold_the_scores(run, "actions", "share_suggestion", ["zero-shot", "hint", "random-proactive"])


def assert_bars_hold_the_scores(run, name, share, conditions):
    """Bars stand one after another up to all episodes, and lines end where the intervals of the first share do."""
    panels = draw_figures(run, [name])[name].axes
    for panel in panels:
        ends = defaultdict(float)
        for bar in panel.patches:
            assert bar.get_x() == pytest.approx(ends[bar.get_y()])
            ends[bar.get_y()] += bar.get_width()
        assert list(ends.values()) == pytest.approx([100] * (len(MODELS) + 1))
    lines = [line[:, 0] for panel in panels for drawn in panel.collections for line in drawn.get_segments()]
    scores = estimate(run).averages.filter(pl.col("condition").is_in(conditions), protocol="mcqa")
    intervals = scores.select(pl.coalesce(f"{share}_{end}", share).alias(end) for end in ("low", "high")).rows() * 2
    assert np.sort(lines, axis=0) == pytest.approx(np.sort(intervals, axis=0))


def describe(figure: Figure) -> Iterator[str]:
    """Yield a line per text, line, bar and interval of a figure, with its place and its look."""
    yield f"inches {figure.get_size_inches().round(2)}"
    for drawn in figure.findobj():
        match drawn:
            case Text() if drawn.get_text():
                yield f"text {drawn.get_text()!r} {to_hex(drawn.get_color())} {drawn.get_fontsize():g}"
            case Line2D() if isinstance(marker := drawn.get_marker(), str) and marker:  # neither a tick nor the grid
                look = f"{to_hex(drawn.get_color())} {marker} {drawn.get_markersize():g} {drawn.get_linewidth():g}"
                yield f"points {look} {places(drawn.get_xydata())}"
            case LineCollection():
                ends = places(drawn.get_segments())
                yield f"intervals {[*map(to_hex, drawn.get_color())]} {drawn.get_linewidth()[0]:g} {ends}"
            case Rectangle():
                place = places([*drawn.get_xy(), drawn.get_width(), drawn.get_height()])
                yield f"bar {to_hex(drawn.get_facecolor())} {drawn.get_hatch()} {drawn.get_linewidth():g} {place}"


def places(values: ArrayLike) -> list[object]:
    """Return numbers to two decimals, with one zero."""
    return (np.round(values, 2) + 0.0).tolist()
