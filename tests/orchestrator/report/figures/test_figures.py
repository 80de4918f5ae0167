"""Every figure is drawn from a run of enough models, and equal runs give equal bytes."""

from collections import defaultdict

import numpy as np
import polars as pl
import pytest

from actors.engine.baselines import Baseline
from orchestrator.report.figures.draw import CAPTIONS, draw_figures, figure_images, write_figures
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.runs import play_sweep, sweep

MODELS = {"llava-ov-7b": "uniform", "internvl3-8b": "ask-properly", "qwen2.5-vl-7b": "guess"}


def test_every_figure_is_drawn_with_equal_bytes(demo_data, tmp_path):
    wanted = sweep(demo_data, [*MODELS, "oracle"], ["zero-shot", "hint", "icl-1", "random-proactive", "reference"])
    folder = play_sweep(tmp_path / "run", wanted, backends={name: Baseline(policy) for name, policy in MODELS.items()})
    paths = write_figures(run := read_run(folder))
    images = figure_images(run, ["answer"])

    assert {path.stem for path in paths} == set(CAPTIONS) and all(path.stat().st_size for path in paths)
    assert images == figure_images(read_run(folder), ["answer"])
    assert images["answer"].startswith("data:image/svg+xml")
    texts = {text.get_text() for text in draw_figures(run, ["answer"])["answer"].findobj() if is_text(text)}
    assert {*MODELS, "oracle"} <= texts
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


def is_text(artist) -> bool:
    return hasattr(artist, "get_text") and isinstance(artist.get_text(), str)
