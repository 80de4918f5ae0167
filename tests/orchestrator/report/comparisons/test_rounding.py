"""The comparison with rounded figures flags two planted points in every scenario."""

from math import ceil

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envs import SCENARIOS
from envs.samples import paper_ids
from orchestrator.report.paper.published import published_figures
from orchestrator.report.tables.paper_comparison import FLOAT_ERROR, smallest_difference


def published_cells() -> list[tuple[str, int, float]]:
    """Return scenario, sample count and accuracy of each published multiple-choice cell of the filtered samples."""
    rows = published_figures().filter("filtered", protocol="mcqa", measure="acc").filter(pl.col("scenario") != "avg")
    return [
        (scenario, len(paper_ids()[scenario]), value)
        for scenario, value in rows.select("scenario", "published").iter_rows()
    ]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_planted_points_are_flagged_in_every_published_cell(scenario):
    cells = [(n, value) for name, n, value in published_cells() if name == scenario]
    for n, value in cells:
        planted = max(1, round(0.02 * n))
        allowed = ceil(0.1 * n / 100)
        k = round(value * n / 100)
        assert planted - allowed <= smallest_difference(k + planted, n, value, 100) <= planted
        assert smallest_difference(k + planted, n, value, 100) > 0 > smallest_difference(k - planted, n, value, 100)
    assert len(cells) == 65


@example(2_000, 0, 1.0)
@given(st.integers(1, 3_000), st.integers(0, 3_000), st.floats(0, 100))
def test_smallest_difference_is_minimal(n, total, value):
    smallest = smallest_difference(total, n, value, 100)
    fits = [k for k in range(n + 1) if abs(k - n * value / 100) <= 0.05 * n / 100 + FLOAT_ERROR]

    if fits:
        assert abs(smallest) == min(abs(total - k) for k in fits)
