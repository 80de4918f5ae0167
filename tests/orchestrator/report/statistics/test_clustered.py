"""The one interval of means and the one of shares, against scipy, by hand and on planted truths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, t, ttest_1samp

from orchestrator.report.statistics.clustered import (
    Units,
    average_means,
    equivalence_test,
    estimate_mean,
    ratio_values,
    share_interval,
    skewed_test,
    t_interval,
    t_test,
)
from orchestrator.report.statistics.proportion import cautious_interval, proportion_interval

VALUES = st.lists(st.integers(-12, 12), min_size=2, max_size=60).filter(lambda values: len(set(values)) > 1)


@given(VALUES)
def test_independent_values_have_the_usual_t(values):
    mean, expected = estimate_mean(np.array(values)), ttest_1samp(values, 0)
    assert t_interval(mean) == pytest.approx((np.mean(values), *expected.confidence_interval(0.95)))
    assert t_test(mean) == pytest.approx(expected.pvalue)


def test_clusters_have_the_variance_cr2_and_its_degrees_of_freedom():
    """The definition of Bell and McCaffrey, with matrices."""
    rng = np.random.default_rng(3)
    groups = np.repeat([0, 1, 2, 3], [2, 5, 1, 4])
    values = rng.integers(0, 9, 12) + groups
    size, design = len(values), np.ones((12, 1))
    hat = design @ design.T / size
    residual, own = np.eye(size) - hat, []
    for group in range(4):
        rows = groups == group
        powers, axes = np.linalg.eigh(np.eye(rows.sum()) - hat[np.ix_(rows, rows)])
        inverse = axes @ np.diag(np.where(powers > 1e-9, powers, np.inf) ** -0.5) @ axes.T
        own.append(residual[rows].T @ inverse @ design[rows, 0] / size)
    variance = sum(float(row @ (values - values.mean())) ** 2 for row in own)
    products = np.array([[first @ second for second in own] for first in own])

    mean = estimate_mean(values, groups)
    assert mean.variance == pytest.approx(variance)
    assert mean.freedom == pytest.approx(np.trace(products) ** 2 / (products**2).sum())
    assert estimate_mean(values, np.arange(12)) == pytest.approx(estimate_mean(values)), "clusters of one are samples"


@given(st.lists(st.tuples(*map(st.integers, (0, 0, 1, 0), (2, 4, 3, 2))), min_size=1))
def test_means_of_many_cells_are_those_of_each_cell_alone(rows):
    owners, clusters, counts, values = np.array(rows).T
    together = Units(owners, clusters, counts, 3).means(values)
    for owner in set(owners):
        alone = estimate_mean(*(column[owners == owner] for column in (values, clusters, counts)))
        assert [figure[owner] for figure in together] == pytest.approx(list(alone), nan_ok=True)


def test_an_average_weighs_its_strata_equally():
    parts = [np.array([0, 1, 2, 3] * 5), np.array([0, 4] * 30)]
    mean = average_means([estimate_mean(part) for part in parts])
    variances = np.array([part.var(ddof=1) / len(part) for part in parts]) / 4
    freedom = variances.sum() ** 2 / (variances**2 / [19, 59]).sum()

    assert mean.value == pytest.approx((1.5 + 2) / 2)
    assert t_interval(mean)[2] == pytest.approx(1.75 + t.ppf(0.975, freedom) * variances.sum() ** 0.5)


@given(st.integers(1, 300), st.data())
def test_shares_have_the_score_interval(n, data):
    hits = data.draw(st.integers(0, n))
    expected = binomtest(hits, n).proportion_ci(0.95, "wilson")
    assert proportion_interval(hits, n) == pytest.approx(tuple(expected))
    low, high = cautious_interval(hits, n)
    assert 0 <= low <= expected[0] and expected[1] <= high <= 1
    if n > 1:
        values = 100 * (np.arange(n) < hits)
        assert share_interval(estimate_mean(values, unit=100), n)[1:] == pytest.approx(
            tuple(100 * end for end in expected)
        )


@pytest.mark.parametrize("groups", [None, np.array([0, 0, 1, 1]), np.array([7, 7, 7, 7])])
def test_equal_values_leave_an_interval(groups):
    mean = estimate_mean(np.array([100, 100, 100, 100]), groups, unit=100)
    value, low, high = share_interval(mean, 4)
    assert (value, high) == (100, 100) and low < 70
    assert np.isnan(t_interval(mean)[1]) == (mean.clusters == 1)


@given(VALUES, st.integers(2, 6))
def test_p_never_contradicts_its_interval(values, clusters):
    groups = np.arange(len(values)) % min(clusters, len(values))
    for mean in (estimate_mean(np.array(values)), estimate_mean(np.array(values), groups)):
        if np.isnan(mean.variance):
            continue
        value, low, high, p = skewed_test(mean)
        assert low <= value <= high and (p < 0.05) == (low > 0 or high < 0)
        assert p >= t_test(mean) - 1e-12
        assert low <= t_interval(mean)[1] and high >= t_interval(mean)[2]


def test_a_difference_within_the_margin_is_equivalent():
    mean = estimate_mean(np.array([100, -100, *[0] * 398]), unit=100)
    assert equivalence_test(mean, 2) < 0.05 < equivalence_test(mean, 0.5)


def test_a_ratio_has_the_error_of_both_of_its_sums():
    """The delta method: compare with the spread of ratios over many draws."""
    rng = np.random.default_rng(5)
    draws = [(rng.binomial(turns := rng.integers(1, 6, 400), 0.3), turns) for _ in range(400)]
    ratios = [hits.sum() / totals.sum() for hits, totals in draws]
    errors = [
        estimate_mean(ratio_values(hits, totals, ratio, totals.mean())).variance ** 0.5
        for (hits, totals), ratio in zip(draws, ratios, strict=True)
    ]
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.1)
