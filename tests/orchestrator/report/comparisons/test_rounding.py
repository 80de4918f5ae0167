"""The comparison with rounded figures flags two planted points in every scenario and never flags equal answers."""

from math import ceil, floor

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envs import SCENARIOS
from envs.samples import paper_ids
from orchestrator.report.paper.published import published_figures
from orchestrator.report.tables.rounding import (
    FLOAT_ERROR,
    agreement,
    agreement_sentences,
    averages_agree,
    smallest_difference,
)


def published_cells(measure: str) -> list[tuple[str, int, float]]:
    """Return scenario, sample count and figure of each published multiple-choice cell of the filtered samples."""
    rows = published_figures().filter("filtered", protocol="mcqa", measure=measure).filter(pl.col("scenario") != "avg")
    return [
        (scenario, len(paper_ids()[scenario]), value)
        for scenario, value in rows.select("scenario", "published").iter_rows()
    ]


@pytest.mark.parametrize(("measure", "scale"), [("acc", 100), ("ps", 1)])
def test_answers_equal_to_paper_are_never_flagged(measure, scale):
    cells = published_cells(measure)
    for _, n, value in cells:
        counts = range(ceil((value - 0.05) * n / scale - 1e-9), floor((value + 0.05) * n / scale + 1e-9) + 1)
        assert counts, "every published figure is that of a whole number"
        assert {smallest_difference(k, n, value, scale) for k in counts} == {0}
    assert len(cells) > 300


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_planted_points_are_flagged_in_every_published_cell(scenario):
    cells = [(n, value) for name, n, value in published_cells("acc") if name == scenario]
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


def test_averages_may_differ_by_rounding():
    assert averages_agree(20.09, 20.0) and not averages_agree(20.0 + 2 / 7, 20.0)


def comparison_rows(differences, exact=True):
    rows = [
        {
            "protocol": "mcqa", "condition": "hint", "measure": "acc", "model": model, "scenario": scenario, "exact": exact,
            "ours": 10.0 * model + by, "published": 10.0 * model, "difference": by, "inside": abs(by) < 0.1,
        }
        for model, by in enumerate(differences) for scenario in ("ROD", "avg")
    ]  # fmt: skip
    return pl.DataFrame(rows)


def test_agreement_has_outliers_distance_and_rank_correlation():
    (row,) = agreement(comparison_rows([0.0, 25.0, 0.05])).to_dicts()

    assert (row["figures"], row["outside"], row["models"]) == (3, 1, 3)
    assert row["mean_absolute"] == pytest.approx(25.05 / 3)
    assert row["rho"] == pytest.approx(0.5), "the second model has overtaken the third"
    assert list(agreement_sentences(comparison_rows([0.0, 25.0, 0.05]))) == [
        "hint (mcqa), acc: 1 of 3 figures off by more than rounding allows; mean absolute difference 8.35 points,"
        " rank correlation of 3 models 0.50"
    ]
    assert next(iter(agreement_sentences(comparison_rows([0.0, 0.05])))).startswith(
        "hint (mcqa), acc: agrees with the paper; "
    )
    (decoded_otherwise,) = agreement_sentences(comparison_rows([0.0, 25.0, 0.05], exact=False))
    assert "1 of 3 figures outside our 95% interval" in decoded_otherwise
    assert not list(agreement_sentences(comparison_rows([0.0]).clear()))


def test_suggestions_are_not_called_points():
    (sentence,) = agreement_sentences(comparison_rows([0.05]).with_columns(measure=pl.lit("ps")))
    assert sentence == "hint (mcqa), ps: agrees with the paper; mean absolute difference 0.05"


@pytest.mark.parametrize(
    ("total", "difference"), [(640, -2), (641, -1), (642, 0), (643, 0), (644, 1), (645, 2), (0, -642)]
)
def test_a_count_is_compared_with_all_that_round_to_the_published_figure(total, difference):
    """Of 2,591 episodes, 642 and 643 are 24.8%; of 42, none is 24.8%, and the nearest number is 10."""
    assert smallest_difference(total, 2_591, 24.8, 100) == difference
    assert smallest_difference(10, 42, 24.8, 100) == 0 and smallest_difference(11, 42, 24.8, 100) == 1
