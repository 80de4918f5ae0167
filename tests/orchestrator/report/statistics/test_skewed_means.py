"""Differences of suggestions with planted truth: coverage, size, power beside Wald's, and agreement of interval and p."""

import numpy as np
import pytest
from scipy.stats import sem, ttest_1samp
from scipy.stats import t as student

from orchestrator.report.statistics.intervals import score_test, stratum_from_values
from orchestrator.report.statistics.means import FEWEST, skewed_mean_test

LIMIT = 13
RUNS = 400


def suggestions(rng, size, share_of_loops, chance=0.5):
    """Suggestions per episode: geometric, and some episodes that loop to the turn limit."""
    return np.where(rng.random(size) < share_of_loops, LIMIT, np.minimum(rng.geometric(chance, size) - 1, LIMIT))


def true_mean(share_of_loops, chance=0.5):
    number = np.arange(LIMIT)
    truncated = (number * chance * (1 - chance) ** number).sum() + LIMIT * (1 - chance) ** LIMIT
    return share_of_loops * LIMIT + (1 - share_of_loops) * truncated


def stratum(differences):
    return stratum_from_values(differences, -LIMIT, LIMIT)


def allowed(share):
    """Three standard errors of a share over ``RUNS``."""
    return 3 * np.sqrt(share * (1 - share) / RUNS)


@pytest.mark.parametrize(("size", "scenarios"), [(42, 1), (300, 1), (42, 7), (300, 7)])
def test_intervals_cover_the_true_difference(size, scenarios):
    rng, covered = np.random.default_rng(size + scenarios), 0
    truth = true_mean(0.1) - true_mean(0.0)
    for _ in range(RUNS):
        strata = [stratum(suggestions(rng, size, 0.1) - suggestions(rng, size, 0.0)) for _ in range(scenarios)]
        low, high, _ = skewed_mean_test(strata)
        covered += low <= truth <= high

    assert covered / RUNS == pytest.approx(0.95, abs=0.02 + allowed(0.95))


def test_equal_means_with_unequal_shapes_are_rejected_in_five_percent():
    """One condition always asks as often, the other one seldom or up to the limit: the worst case of a sign-flip test."""
    rng, rejections, truth = np.random.default_rng(1), 0, true_mean(0.1)
    constant = np.array([1, 2])  # two integers whose mixture has the same mean
    for _ in range(RUNS):
        steady = constant[(rng.random(42) < truth - 1).astype(int)]
        rejections += skewed_mean_test([stratum(suggestions(rng, 42, 0.1) - steady)])[2] < 0.05

    assert rejections / RUNS <= 0.05 + allowed(0.05)


@pytest.mark.parametrize("sizes", [(40,), (40, 300)])
def test_p_is_students_of_halls_transformation(sizes):
    """Over strata, the variance is that of their mean and the degrees of freedom are Satterthwaite's."""
    rng, number = np.random.default_rng(7), len(sizes)
    parts = [suggestions(rng, size, 0.1) - suggestions(rng, size, 0.02) for size in sizes]
    variances = np.array([sem(part) ** 2 for part in parts]) / number**2
    error = variances.sum() ** 0.5
    freedom = variances.sum() ** 2 / (variances**2 / (np.array(sizes) - 1)).sum()
    thirds = [((part - part.mean()) ** 3).sum() / len(part) ** 3 / number**3 for part in parts]
    mean, skewness = np.mean([part.mean() for part in parts]), sum(thirds) / error**3
    if number == 1:
        assert mean / error == pytest.approx(ttest_1samp(parts[0], 0).statistic) and freedom == pytest.approx(39)

    def transform(studentized):
        return studentized + skewness * studentized**2 / 3 + skewness**2 * studentized**3 / 27 + skewness / 6

    low, high, p = skewed_mean_test([stratum(part) for part in parts])
    assert abs(skewness) > 0.05 and p == pytest.approx(2 * student.sf(abs(transform(mean / error)), freedom))
    reach = student.ppf(0.975, freedom)
    assert [transform((mean - bound) / error) for bound in (low, high)] == pytest.approx([reach, -reach])


@pytest.mark.parametrize("shift", [0.05, 0.1, 0.2])
def test_power_is_that_of_walds_test(shift):
    rng, ours, wald = np.random.default_rng(int(100 * shift)), 0, 0
    for _ in range(RUNS):
        asked_more = (rng.random((7, 300)) < shift).astype(int)
        differences = [suggestions(rng, 300, 0.02) - suggestions(rng, 300, 0.02) + more for more in asked_more]
        ours += skewed_mean_test([stratum(part) for part in differences])[2] < 0.05
        wald += ttest_1samp(np.concatenate(differences), 0).pvalue < 0.05

    assert ours / RUNS == pytest.approx(wald / RUNS, abs=0.05)


@pytest.mark.parametrize("size", [3, 29, 30, 200])
def test_interval_excludes_zero_exactly_where_p_is_below_five_percent(size):
    rng = np.random.default_rng(size)
    for _ in range(200):
        shift = rng.integers(0, 2, size)
        low, high, p = skewed_mean_test([stratum(suggestions(rng, size, 0.1) - suggestions(rng, size, 0.1) + shift)])

        assert (p < 0.05) == (low > 0 or high < 0) or min(abs(low), abs(high)) < 1e-3


@pytest.mark.parametrize("value", [-1, 0, 2])
def test_equal_differences_keep_an_interval(value):
    low, high, p = skewed_mean_test([stratum(np.full(FEWEST, value))])

    assert low < value < high and high - low < 0.2
    assert (p == 1.0) if value == 0 else p < 1e-9


def test_few_pairs_are_tested_by_score():
    strata = [stratum(np.array([0, 1] * 40)), stratum(np.array([0, 1, 1]))]

    assert skewed_mean_test(strata) == score_test(strata)
