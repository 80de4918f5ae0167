"""The jackknife's intervals: Student's t where nothing is skewed, wider to the long side where it is, none where it cannot be."""

import numpy as np
import pytest
from scipy.stats import t as student

from orchestrator.report.statistics import jackknife
from orchestrator.report.statistics.jackknife import LeftOut, jackknife_interval, leave_out_weights


def left_out_means(values, clusters):
    weights, sizes = leave_out_weights(clusters)
    return LeftOut(weights @ values, sizes)


def test_the_mean_of_symmetric_values_has_students_interval():
    values = np.linspace(-1, 1, 20)
    interval = jackknife_interval(values.mean(), [left_out_means(values, [str(n) for n in range(20)])])
    low, high = student.interval(0.95, 19, values.mean(), values.std(ddof=1) / 20**0.5)
    assert interval == pytest.approx((0.0, low, high))


def test_a_cluster_counts_as_one_and_unequal_ones_as_fewer():
    values = np.repeat(np.linspace(-1, 1, 20), 3)
    names = [str(n // 3) for n in range(60)]
    _, low, high = jackknife_interval(values.mean(), [left_out_means(values, names)])
    single = jackknife_interval(0.0, [left_out_means(np.linspace(-1, 1, 20), [str(n) for n in range(20)])])
    assert (low, high) == pytest.approx((single.low, single.high))
    equal = left_out_means(values, names)
    uneven = equal._replace(sizes=np.array([1.0] * 15 + [9.0] * 5))
    assert jackknife_interval(0.0, [uneven]).high > jackknife_interval(0.0, [equal]).high + 0.02


def test_skewed_values_reach_further_to_their_long_side():
    values = np.array([0.0] * 25 + [1.0, 2.0, 4.0, 8.0, 13.0])
    value, low, high = jackknife_interval(values.mean(), [left_out_means(values, [str(n) for n in range(30)])], 0.0)
    assert high - value > 1.3 * (value - low)
    assert low >= 0.0


def test_a_stratum_of_equal_values_halves_the_interval_of_a_mean_of_two():
    names = [str(n) for n in range(30)]
    values = np.array([0.0] * 25 + [1.0, 2.0, 4.0, 8.0, 13.0])
    skewed, steady = left_out_means(values, names), left_out_means(np.zeros(30), names)
    alone = jackknife_interval(values.mean(), [skewed])
    both = jackknife_interval(values.mean() / 2, [skewed, steady])

    halves = [(limit - alone.value) / 2 for limit in (alone.low, alone.high)]
    assert [limit - both.value for limit in (both.low, both.high)] == pytest.approx(halves)
    assert jackknife_interval(0.0, [steady]) == (0.0, 0.0, 0.0)


def test_intervals_of_skewed_means_hold_the_true_one():
    rng, names, held = np.random.default_rng(3), [str(n) for n in range(30)], np.zeros(2)
    for _ in range(1000):
        values = rng.exponential(size=30)
        _, low, high = jackknife_interval(values.mean(), [left_out_means(values, names)])
        reach = student.ppf(0.975, 29) * values.std(ddof=1) / 30**0.5
        held += low <= 1.0 <= high, abs(values.mean() - 1.0) <= reach
    assert 935 <= held[0] <= 970
    assert held[0] > held[1]


def test_strata_are_combined_as_independent():
    values = np.linspace(-1, 1, 20)
    one = left_out_means(values, [str(n) for n in range(20)])
    _, _, alone = jackknife_interval(0.0, [one])
    _, _, both = jackknife_interval(0.0, [one, one])
    ratio = student.ppf(0.975, 38) / student.ppf(0.975, 19) / 2**0.5
    assert both == pytest.approx(alone * ratio)


def test_limits_are_missing_where_they_cannot_be_known():
    one = left_out_means(np.array([1.0, 2.0]), ["a", "a"])
    assert np.isnan(jackknife_interval(1.5, [one])[1:]).all()
    values = np.arange(20.0)
    some = left_out_means(values, [str(n) for n in range(20)])
    some.values[:2] = np.nan
    assert np.isnan(jackknife_interval(9.5, [some]).low)
    assert np.isnan(jackknife_interval(float("nan"), [left_out_means(values, [str(n) for n in range(20)])]).low)


def test_equal_values_have_no_width_and_limits_stay_in_range():
    assert jackknife_interval(0.3, [left_out_means(np.full(5, 0.3), list("abcde"))]) == pytest.approx((0.3, 0.3, 0.3))
    values = np.array([1.0] * 9 + [0.6])
    _, low, high = jackknife_interval(values.mean(), [left_out_means(values, list("abcdefghij"))], 0.0, 1.0)
    assert 0.0 <= low < 0.96 < high <= 1.0


def test_many_clusters_are_joined(monkeypatch):
    monkeypatch.setattr(jackknife, "MOST", 20)
    values = np.random.default_rng(1).normal(size=200)
    weights, sizes = leave_out_weights([str(n) for n in range(200)])
    assert weights.shape == (20, 200) and sizes.tolist() == [10] * 20
    _, low, high = jackknife_interval(values.mean(), [LeftOut(weights @ values, sizes)])
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 200**0.5, rel=0.35)
