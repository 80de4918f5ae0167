"""Differences of averages: every scenario weighs the same, interval and p agree, baselines are outside the family."""

import numpy as np
import polars as pl
import pytest

from orchestrator.report.measures.paired_averages import compare_condition_averages, compare_model_averages
from orchestrator.report.statistics.intervals import score_interval, score_test, stratum_from_values
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def cell(model, scenario, condition, size, right, turns=1):
    return [episode(n, f"{model}/{scenario}/{condition}", correct=n < right, turns=turns) for n in range(size)]


@pytest.fixture
def gains(run_data):
    """Hints gain 20 of 100 samples in QD and 10 of 1,000 in ROD; the oracle is played too."""
    rows = [*cell("m", "QD", "hint", 100, 50, 3), *cell("m", "QD", "zero-shot", 100, 30)]
    rows += [*cell("m", "ROD", "hint", 1_000, 110, 2), *cell("m", "ROD", "zero-shot", 1_000, 100, 2)]
    rows += [*cell("oracle", "QD", "hint", 100, 100), *cell("oracle", "QD", "zero-shot", 100, 100)]
    return replace_episodes(run_data, rows)


def test_every_scenario_weighs_the_same(gains):
    row = compare_condition_averages(gains).filter(model="m").row(0, named=True)

    assert (row["scenarios"], row["n"]) == (2, 1_100)
    assert row["difference"] == pytest.approx((20 + 1) / 2)
    assert row["ps_difference"] == pytest.approx((2 + 0) / 2)
    assert row["difference_low"] < row["difference"] < row["difference_high"]
    assert row["p"] < 1e-4 and row["p_holm"] == row["p"], "one comparison of models is declared"
    assert compare_condition_averages(gains).filter(model="oracle").select("p_holm", "ps_p_holm").row(0) == (None, None)


def test_models_are_compared_on_the_scenarios_that_both_played(gains):
    row = compare_model_averages(gains).row(0, named=True)

    assert (row["model"], row["other"], row["scenarios"]) == ("m", "oracle", 1)
    assert row["difference"] == pytest.approx(-70) and row["p_holm"] is None


def strata(rng, n, shifts):
    """Return strata of paired answer differences, one per scenario."""
    differences = []
    for shift in shifts:
        plain, fresh = rng.random(n), rng.random(n)
        differences.append(
            stratum_from_values(
                (plain < 0.3 + shift).astype(int) - (0.5 * plain + 0.5 * fresh < 0.35).astype(int), -1, 1
            )
        )
    return differences


@pytest.mark.parametrize("n", [10, 100])
def test_p_below_five_percent_matches_interval_without_zero(n):
    rng = np.random.default_rng(n)
    for _ in range(60):
        drawn_strata = strata(rng, n, rng.uniform(-0.2, 0.3, 3))
        low, high = score_interval(drawn_strata)
        if min(abs(low), abs(high)) > 1e-3:
            assert (score_test(drawn_strata)[2] < 0.05) == (low > 0 or high < 0)


@pytest.mark.parametrize("n", [10, 30, 300])
def test_intervals_of_average_differences_are_covered(n):
    rng, runs, shifts = np.random.default_rng(n), 150, (0.0, 0.1, 0.3, 0.05, 0.0, 0.2, 0.5)
    # 0.5 * (uniform + uniform) < 0.35 has chance 2 * 0.35^2
    truth = np.mean([0.3 + shift for shift in shifts]) - 2 * 0.35**2
    covered = sum(low <= truth <= high for low, high in (score_interval(strata(rng, n, shifts)) for _ in range(runs)))

    assert covered / runs >= 0.93 - 3 * np.sqrt(0.05 * 0.95 / runs)


def test_paired_table_has_averages(run_data):
    from orchestrator.report.tables.evidence import paired_table

    grid = paired_table(run_data)
    means = compare_condition_averages(run_data).filter(pl.col("condition") == "hint")

    assert grid.columns[-1].name == "avg"
    assert means.height == 6 and set(means["scenarios"]) == {7}


def test_loops_are_compared_beside_suggestions(run_data):
    """Hints end 10 of 40 samples at the turn limit, zero-shot none."""
    looped = [episode(n, "m/QD/hint", turns=8, ending="limit", correct=False) for n in range(10)]
    rows = [
        *looped,
        *(episode(n, "m/QD/hint", turns=2) for n in range(10, 40)),
        *cell("m", "QD", "zero-shot", 40, 40, 2),
    ]
    row = compare_condition_averages(replace_episodes(run_data, rows)).row(0, named=True)

    assert (row["loops_difference"], row["ps_difference"]) == pytest.approx((25, 1.5))
    assert 12 < row["loops_low"] < 25 < row["loops_high"] < 41
    assert row["ps_low"] > 0 and row["ps_p"] < 0.05
