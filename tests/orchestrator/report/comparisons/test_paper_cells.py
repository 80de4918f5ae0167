"""Cells, notes and agreement of a comparison with the paper, each from planted rows."""

import polars as pl
import pytest

from orchestrator.report.tables import paper_comparison as room
from orchestrator.report.tables.paper_comparison import SCHEMA

ROW = {
    "model": "m", "paper": "M", "scenario": "ROD", "condition": "hint", "protocol": "mcqa", "measure": "acc", "planned": 2000,
    "finished": 2000, "ours": 41.26, "low": 39.0, "high": 43.5, "published": 43.04, "difference": -1.78, "episodes": -3,
    "inside": False, "exact": True, "errors": 0, "reason": None, "judge": None, "apart": "", "flip_rate": None,
}  # fmt: skip


def rows(*changes):
    return pl.DataFrame([{**ROW, **change} for change in changes], SCHEMA)


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [(43.0, 50.0, True), (43.1, 50.0, False), (40.0, 42.9, False), (40.0, 43.0, True), (None, 50.0, None)],
)  # fmt: skip
def test_a_figure_that_is_not_exact_agrees_if_rounding_reaches_its_interval(low, high, inside):
    row = {**ROW, "low": low, "high": high}

    assert room._agreement_columns(row, {}, False, []) == {"exact": False, "inside": inside}


def test_an_exact_figure_agrees_to_the_episode():
    cell = {"scored": 1000, "finished": 1000, "acc": 43.1, "ps": 2.0}

    # 43.04 is printed as 43.0 or 43.1: 429.9 to 430.9 episodes of 1,000; 431 are one too many
    assert room._agreement_columns(ROW, cell, True, []) == {"exact": True, "episodes": 1, "inside": False}
    assert room._agreement_columns({**ROW, "flip_rate": 5.0}, cell, True, []) == {
        "exact": True, "episodes": 1, "inside": True
    }  # fmt: skip
    assert room._agreement_columns(ROW, {**cell, "acc": 43.0}, True, []) == {
        "exact": True,
        "episodes": 0,
        "inside": True,
    }
    assert room._episode_difference({**cell, "finished": 1100}, "acc", 43.1) == 431 - 474, "errors count as wrong"
    assert room._episode_difference(cell, "ps", 1.9) == 2000 - 1950


def test_an_average_agrees_within_rounding_and_flips():
    row = {**ROW, "scenario": "avg", "ours": 43.13}

    assert room._agreement_columns(row, {}, True, [100, 100]) == {"exact": True, "inside": True}
    far = {**row, "ours": 44.0}
    assert room._agreement_columns(far, {}, True, [100, 100]) == {"exact": True, "inside": False}
    # flips of 1% in two scenarios of 100: the standard error is 100 x root(2 x 0.01 / 100 / 4) = 0.71 points
    assert room._agreement_columns({**far, "flip_rate": 1.0}, {}, True, [100, 100])["inside"]
    assert not room._agreement_columns({**far, "ours": 44.6, "flip_rate": 1.0}, {}, True, [100, 100, 0])["inside"]
