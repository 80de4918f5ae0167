"""Steps of measures by hand: the size that an average counts as, and the counts of labels."""

import polars as pl
import pytest

from orchestrator.report.measures.judge_correction import _average_size, _count_labels
from orchestrator.report.statistics.agreement import Confusion
from orchestrator.report.statistics.judge_error import Labels


def test_an_average_counts_as_so_many_independent_answers():
    assert _average_size([0.3], [40.0]) == 40.0
    # (0.5 * 10 + 0.5) / 11 = 0.5 twice: 0.25 / (2 * 0.25 / 10 / 4)
    assert _average_size([0.5, 0.5], [10.0, 10.0]) == pytest.approx(20.0)
    smooth = [(0.2 * 10 + 0.5) / 11, (0.9 * 30 + 0.5) / 31]
    mean = sum(smooth) / 2
    variance = (smooth[0] * (1 - smooth[0]) / 10 + smooth[1] * (1 - smooth[1]) / 30) / 4
    assert _average_size([0.2, 0.9], [10.0, 30.0]) == pytest.approx(mean * (1 - mean) / variance)


def test_labels_are_counted_by_what_they_and_the_judge_say():
    pairs = [(True, True)] * 5 + [(True, False)] * 4 + [(False, True)] * 3 + [(False, False)] * 2 + [(None, True)] * 7
    cell = pl.DataFrame([*pairs, (None, False)], schema=["category_true", "category"], orient="row")

    assert _count_labels(cell, "category") == Labels(Confusion(5, 4, 3, 2), 7, 8)
