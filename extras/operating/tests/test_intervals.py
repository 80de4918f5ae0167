"""Intervals of means over strata, and measures that are no means, on cases worked by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

from proactive_operating.cells import operating_cells, scenario_clusters
from proactive_operating.intervals import linearize, mean_interval
from tests.bench.planted_evidence import plant_cell, planted_run
from tests.envs.games import SAMPLES

TWENTY = np.arange(20)
STEPS = np.linspace(-1, 1, 20)


def test_the_mean_has_students_interval_and_each_cluster_counts_once():
    low, high = student.interval(0.95, 19, 0.0, STEPS.std(ddof=1) / 20**0.5)

    assert mean_interval([(STEPS, TWENTY)]) == pytest.approx((0.0, low, high))
    assert mean_interval([(np.repeat(STEPS, 3), np.repeat(TWENTY, 3))]) == pytest.approx((0.0, low, high))


def test_strata_are_combined_as_independent_and_equal_values_add_no_width():
    one, steady = (STEPS, TWENTY), (np.zeros(20), TWENTY)
    alone, both, half = mean_interval([one]), mean_interval([one, one]), mean_interval([one, steady])

    assert both[2] == pytest.approx(alone[2] * student.ppf(0.975, 38) / student.ppf(0.975, 19) / 2**0.5)
    assert half[2] == pytest.approx(alone[2] / 2)
    assert mean_interval([steady]) == (0.0, 0.0, 0.0)


def test_limits_are_missing_where_they_cannot_be_known_and_stay_in_range():
    assert np.isnan(mean_interval([(np.array([1.0, 2.0]), np.zeros(2))])[1:]).all()
    assert np.isnan(mean_interval([(np.full(3, np.nan), np.arange(3))])).all()
    _, low, high = mean_interval([(np.array([1.0] * 9 + [0.6]), TWENTY[:10])], 0.0, 1.0)
    assert 0.0 <= low < 0.96 < high <= 1.0


@pytest.mark.parametrize("scale", [1e-80, 1e-170, 1e-300])
def test_values_whose_squares_underflow_have_no_width(scale):
    """A model that hardly ever asks has such suggestions."""
    value, low, high = mean_interval([(scale * np.arange(20.0), TWENTY)])

    assert low == value == high


def test_the_error_of_a_ratio_is_that_of_its_residuals():
    hits, totals = np.array([1.0, 3, 2, 6]), np.array([2.0, 4, 4, 6])
    ratio = hits.sum() / totals.sum()
    values = linearize(ratio, np.arange(4), (hits - ratio * totals) / totals.sum(), 4)

    assert values.mean() == pytest.approx(ratio)
    assert values.std() == pytest.approx((hits - ratio * totals).std() / totals.mean())


@pytest.mark.parametrize(("alike", "clusters"), [(True, 20), (False, 0)])
def test_clusters_count_by_exact_accuracy_where_nothing_was_played(alike, clusters):
    samples = {n: replace(SAMPLES["MVP-N"], id=n, answer=f"object {n // 5}", image=str(n)) for n in range(100)}
    run = planted_run([plant_cell("m/ROD/zero-shot", np.ones(2, dtype=bool))], {"MVP-N": samples})
    chances = np.random.default_rng(0).random(100)
    own = SimpleNamespace(accuracy=np.repeat(chances[:20], 5) if alike else chances)
    cell = SimpleNamespace(scenario="MVP-N", model="m", samples=[*samples.values()], summary=SimpleNamespace(own=own))
    run.cache[operating_cells.__wrapped__, (), ()] = [cell]

    assert len(set(scenario_clusters(run, "MVP-N").values())) == clusters
