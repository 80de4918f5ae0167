"""The jackknife's intervals: Student's t over clusters, within range, and none where they cannot be known."""

import numpy as np
import pytest
from scipy.stats import t as student

from proactive_operating.jackknife import LeftOut, jackknife_interval, leave_out_weights, mean_interval

TWENTY = [str(number) for number in range(20)]
STEPS = np.linspace(-1, 1, 20)


def left_out_means(values, clusters):
    weights, sizes = leave_out_weights(clusters)
    return LeftOut(weights @ values, sizes)


def test_the_mean_of_symmetric_values_has_students_interval_and_each_cluster_counts_once():
    low, high = student.interval(0.95, 19, 0.0, STEPS.std(ddof=1) / 20**0.5)

    assert mean_interval([(STEPS, TWENTY)]) == pytest.approx((0.0, low, high))
    assert mean_interval([(np.repeat(STEPS, 3), np.repeat(TWENTY, 3).tolist())]) == pytest.approx((0.0, low, high))
    uneven = left_out_means(STEPS, TWENTY)._replace(sizes=np.array([1.0] * 15 + [9.0] * 5))
    assert jackknife_interval(0.0, [uneven]).high > high + 0.02


def test_strata_are_combined_as_independent_and_equal_values_add_no_width():
    one, steady = (STEPS, TWENTY), (np.zeros(20), TWENTY)
    alone, both, half = mean_interval([one]), mean_interval([one, one]), mean_interval([one, steady])

    assert both.high == pytest.approx(alone.high * student.ppf(0.975, 38) / student.ppf(0.975, 19) / 2**0.5)
    assert half.high == pytest.approx(alone.high / 2)
    assert mean_interval([steady]) == (0.0, 0.0, 0.0)


def test_limits_are_missing_where_they_cannot_be_known_and_stay_in_range():
    assert np.isnan(mean_interval([(np.array([1.0, 2.0]), ["a", "a"])])[1:]).all()
    gap = left_out_means(STEPS, TWENTY)
    gap.values[:2] = np.nan
    assert np.isnan(jackknife_interval(0.0, [gap]).low)
    assert np.isnan(mean_interval([(np.full(3, np.nan), ["a", "b", "c"])])).all()
    _, low, high = mean_interval([(np.array([1.0] * 9 + [0.6]), TWENTY[:10])], 0.0, 1.0)
    assert 0.0 <= low < 0.96 < high <= 1.0


@pytest.mark.parametrize("scale", [1e-80, 1e-170, 1e-300])
def test_influences_whose_squares_underflow_have_no_width(scale):
    """A model that hardly ever asks has such suggestions; its clusters' fourth moments are 0."""
    interval = mean_interval([(scale * np.arange(20.0), TWENTY)])

    assert interval.low == interval.value == interval.high
