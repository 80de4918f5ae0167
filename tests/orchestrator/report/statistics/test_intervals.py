"""Intervals have their stated coverage, compared with closed forms, scipy and seeded simulations."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, norm, ttest_1samp

from orchestrator.report.statistics import intervals
from orchestrator.report.statistics.clusters import effective_size
from orchestrator.report.statistics.intervals import (
    Z,
    combine_intervals,
    ratio_interval,
    score_interval,
    score_test,
    score_tests,
    stratum_from_values,
)
from orchestrator.report.statistics.proportion import proportion_bounds, proportion_interval

SIZES = (10, 30, 100, 1000)
SHARES = (0, 0.001, 0.01, 0.05, 0.2, 0.5, 0.9, 0.99, 1)
SCENARIOS = 7


@given(st.integers(1, 3_000), st.floats(0, 1))
def test_score_interval_of_one_stratum_is_wilson(n, share):
    hits = round(share * n)
    expected = binomtest(hits, n).proportion_ci(method="wilson")

    values = np.repeat([0, 100], [n - hits, hits])
    assert score_interval([stratum_from_values(values, 0, 100)]) == pytest.approx(
        (100 * expected.low, 100 * expected.high), abs=0.02
    )


def exact_coverage(n: int, bounds, every: int = 1) -> tuple[float, float]:
    """Return the least coverage over all proportions and the mean over 0.5% to 50%; the other half mirrors it.

    Coverage drops only at the ends of intervals, so the least is next to them.
    """
    hits = np.arange(n + 1)
    low, high = (np.clip(bound, 0, 1) for bound in bounds(hits, n))
    ends = np.concatenate([low, high])[:, None] + [-1e-9, 1e-9]
    shares = np.unique(np.clip(ends, 1e-7, 0.5 + 1e-7))[::every]

    def coverage_at(p):
        return (binom.pmf(hits, n, p[:, None]) * ((low <= p[:, None]) & (p[:, None] <= high))).sum(axis=1)

    return coverage_at(shares).min(), coverage_at(np.linspace(0.005, 0.5, 500)).mean()


@pytest.mark.parametrize("n", [*range(10, 33), 42, 100, 300])
def test_a_cell_is_covered_at_every_proportion(n):
    least, mean = exact_coverage(n, proportion_bounds)

    assert least >= 0.93
    assert 0.95 <= mean <= 0.972


@pytest.mark.long
def test_every_cell_of_ten_to_a_thousand_samples_is_covered():
    for n in [*range(10, 301), *range(310, 1_001, 10)]:
        least, mean = exact_coverage(n, proportion_bounds, every=1 if n <= 300 else 5)
        assert least >= 0.93 and 0.95 <= mean <= 0.972, (n, least, mean)


def test_the_interval_of_three_in_twenty():
    """Agresti and Coull's, with z + (z^3 + z) / (4 (n + 30)) = 2.0074 for z = 1.96: t of 50 degrees of freedom is 2.0086."""
    assert proportion_interval(3, 20) == pytest.approx((0.0400064, 0.3727812), abs=1e-6)


def test_bounds_are_the_same_for_numbers_and_columns_and_end_at_0_and_1():
    n = np.array([10, 10, 42, 1_000])
    low, high = proportion_bounds(np.array([0, 10, 3, 1_000]), n)

    assert proportion_interval(3, 42) == (low[2], high[2]) == pytest.approx((0.0162, 0.1985), abs=1e-4)
    assert proportion_interval(0, 10)[0] == 0 and proportion_interval(10, 10)[1] == 1
    assert proportion_interval(0, 10)[1] == pytest.approx(1 - proportion_interval(10, 10)[0])


def tango(gained: int, lost: int, n: int, side: int) -> float:
    """Return Tango's bound (1998), from the closed form of the constrained share of losses."""

    def standardized_score(d: float) -> float:
        linear = -gained - lost + (2 * n - gained + lost) * d
        share = (np.sqrt(linear**2 + 8 * n * lost * d * (1 - d)) - linear) / (4 * n)
        return (gained - lost - n * d) / np.sqrt(max(n * (2 * share + d * (1 - d)), 1e-12)) + side * Z

    observed = (gained - lost) / n
    return (
        brentq(standardized_score, observed, 1 - 1e-9) if side > 0 else brentq(standardized_score, -1 + 1e-9, observed)
    )


@pytest.mark.parametrize(("gained", "lost", "n"), [(12, 0, 40), (9, 5, 44), (1, 0, 10), (0, 0, 30), (60, 55, 1000)])
def test_paired_difference_interval_is_tango(gained, lost, n):
    values = np.repeat([1, -1, 0], [gained, lost, n - gained - lost])
    expected = (tango(gained, lost, n, -1), tango(gained, lost, n, +1))

    assert score_interval([stratum_from_values(values, -1, 1)]) == pytest.approx(expected, abs=5e-4)


def coverage(draw, truth: float, strata: int, runs: int) -> float:
    """Return how often the interval of ``strata`` independent draws holds the truth."""
    covered = 0
    for _ in range(runs):
        low, high = score_interval([draw(index) for index in range(strata)])
        covered += low - 1e-6 <= truth <= high + 1e-6
    return covered / runs


def accuracy_draw(rng, n, share):
    return lambda index: stratum_from_values((rng.random(n) < min(1.0, share * (0.4 + 0.2 * index))).astype(int), 0, 1)


def suggestion_draw(rng, n, loops, limit=20):
    """Return a draw of suggestions from episodes of which some loop to the limit and the others seldom ask."""
    return lambda index: stratum_from_values(
        np.where(rng.random(n) < loops, limit, np.minimum(rng.geometric(0.7, n) - 1, 3)), 0, limit
    )


def mean_suggestions(loops, limit=20):
    plain = sum(min(k, 3) * 0.7 * 0.3**k for k in range(200))
    return loops * limit + (1 - loops) * plain


def tolerance(runs: int) -> float:
    return 3 * np.sqrt(0.95 * 0.05 / runs)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("share", [0, 0.01, 0.3, 1])
def test_averages_of_accuracy_are_covered(n, share):
    truth = np.mean([min(1.0, share * (0.4 + 0.2 * index)) for index in range(SCENARIOS)])

    assert coverage(accuracy_draw(np.random.default_rng(n), n, share), truth, SCENARIOS, 80) >= 0.93 - tolerance(80)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("loops", [0, 0.01, 0.1, 1])
def test_suggestions_are_covered_where_loops_are_rare(n, loops):
    rng = np.random.default_rng(n)

    assert coverage(suggestion_draw(rng, n, loops), mean_suggestions(loops), 1, 150) >= 0.93 - tolerance(150)
    assert coverage(suggestion_draw(rng, n, loops), mean_suggestions(loops), SCENARIOS, 50) >= 0.93 - tolerance(50)


@pytest.mark.long
@pytest.mark.parametrize("n", SIZES)
def test_coverage_on_the_whole_grid(n):
    """Coverage is at least 92%, and at most 97.5% for averages away from 0 and 1 over 100 or more episodes."""
    rng, runs = np.random.default_rng(n), 400
    for share in SHARES:
        truth = np.mean([min(1.0, share * (0.4 + 0.2 * index)) for index in range(SCENARIOS)])
        rate = coverage(accuracy_draw(rng, n, share), truth, SCENARIOS, runs)
        print(f"n {n} accuracy {share}: {100 * rate:.1f}%")
        assert rate >= 0.93 - tolerance(runs)
        assert rate <= 0.975 + tolerance(runs) or not (n >= 100 and 0.01 <= share <= 0.5)
    for loops in (0, 0.001, 0.01, 0.05, 0.3, 1):
        for strata in (1, SCENARIOS):
            rate = coverage(suggestion_draw(rng, n, loops), mean_suggestions(loops), strata, runs)
            print(f"n {n} suggestions, loops {loops}, {strata} cells: {100 * rate:.1f}%")
            assert rate >= 0.92 - tolerance(runs)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
def test_shares_of_answers_are_covered_over_episodes(share):
    """Episodes of one to ten answers that tend to be alike."""
    rng, covered, runs = np.random.default_rng(1), 0, 300
    for _ in range(runs):
        turns = rng.integers(1, 11, 100)
        own = rng.beta(share * 2, (1 - share) * 2, 100) if 0 < share < 1 else np.full(100, share)
        low, high = ratio_interval(rng.binomial(turns, own), turns, np.ones(100, dtype=int))
        covered += low - 1e-9 <= share <= high + 1e-9

    assert covered / runs >= 0.93 - tolerance(runs)


OBSERVED = [np.array([0, 0, 1, 2, 2, 5, 9]), np.array([3, 4, 4, 4, 8]), np.array([0, 1] * 20), np.array([7] * 12)]


@pytest.mark.parametrize("values", OBSERVED)
def test_equal_strata_match_one_pooled_stratum(values):
    """An average of k equal strata has the variance of one stratum with k times the episodes."""
    pooled = score_interval([stratum_from_values(np.tile(values, 3), 0, 12)])

    assert score_interval([stratum_from_values(values, 0, 12)] * 3) == pytest.approx(pooled, abs=2e-3)


@pytest.mark.parametrize("values", OBSERVED)
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_bounds_follow_the_unit_of_the_values(values, unit):
    low, high = score_interval([stratum_from_values(values, 0, 12)])

    assert score_interval([stratum_from_values(values * unit, 0, 12 * unit)]) == pytest.approx(
        (low * unit, high * unit), rel=1e-6
    )


def test_constant_value_has_bounds_of_all_hits():
    """Anything below lies at the bound, so the bound is 7 times the share of hits."""
    expected = binomtest(12, 12).proportion_ci(method="wilson").low

    assert score_interval([stratum_from_values(np.array([7] * 12), 0, 12)])[0] == pytest.approx(7 * expected, abs=1e-3)


@pytest.mark.parametrize("values", [OBSERVED[0], OBSERVED[2]])
def test_a_bound_is_a_mean_that_is_just_not_rejected(values):
    """Scipy finds the best-fitting distribution with a given mean over the observed values and the bound."""
    low, _ = score_interval([stratum_from_values(values, 0, 12)])
    kinds, counts = np.unique(np.append(values, 0), return_counts=True)
    counts = counts - (kinds == 0)

    def excess(mean):
        def slope(tilt):
            return (counts / (counts.sum() + tilt * (kinds - mean))) @ (kinds - mean)

        limit = counts.sum() / (mean - 0)
        tilt = brentq(slope, -counts.sum() / (kinds.max() - mean) * (1 - 1e-9), limit * (1 - 1e-12))
        shares = counts / (counts.sum() + tilt * (kinds - mean))
        shares = np.where(kinds == 0, 1 - shares[kinds != 0].sum(), shares)
        spread = shares @ kinds**2 - mean**2
        return (values.mean() - mean) / sqrt(spread / len(values)) - Z

    assert excess(low + 0.002) < 0 < excess(max(low - 0.002, 1e-6))


def test_stratum_has_mean_and_widest_bounds():
    values = np.array([9, 3, 3, 5])

    inside, outside = stratum_from_values(values, 0, 20), stratum_from_values(values, 4, 8)
    assert (inside.low, inside.high, inside.mean) == (0, 20, 5.0) and (outside.low, outside.high) == (3, 9)
    assert inside.values.tolist() == [3, 5, 9] and inside.counts.tolist() == [2, 1, 1]


def test_clustered_values_have_effective_sample_size():
    values, groups = np.repeat([0, 1, 0, 1], 10), np.repeat([0, 1, 2, 3], 10)
    effective = effective_size(values, groups)

    counts = stratum_from_values(values, 0, 1, groups).counts
    assert effective < 40 and counts.tolist() == pytest.approx([effective / 2, effective / 2])


@pytest.mark.parametrize("highest", [4, 40])
def test_zero_mean_is_rejected_where_outside_interval(highest):
    """p < 0.05 exactly where the interval leaves out zero, also for asymmetric bounds."""
    for seed in range(60):
        values = np.random.default_rng(seed).integers(-2, 4, 24)
        stratum = stratum_from_values(values, -3, highest)
        low, high, p = score_test([stratum])
        assert (low, high) == score_interval([stratum])
        assert 0 < p <= 1 and (p == 1) == (values.sum() == 0)
        assert (p < 0.05) == (not low <= 0 <= high) or 0.045 < p < 0.055


@pytest.mark.parametrize("sign", [1, -1])
def test_a_mean_of_exactly_one_is_tested_and_a_mean_of_zero_has_p_one(sign):
    assert score_test([stratum_from_values(np.array([1] * 9) * sign, -2, 2)])[2] < 0.05
    assert score_test([stratum_from_values(np.array([-1, 1] * 9), -2, 2)])[2] == 1.0


def test_averages_of_combined_estimates_do_not_collapse():
    low, high = combine_intervals([(0.0, 0.0, 8.0), (100.0, 96.0, 100.0)])

    assert low == pytest.approx(50 - 2) and high == pytest.approx(50 + 4)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(12, 40))
def test_the_mean_lies_inside_and_bounds_mirror(values, highest):
    observed = np.array(values)
    low, high = score_interval([stratum_from_values(observed, 0, highest)])
    mirrored = score_interval([stratum_from_values(highest - observed, 0, highest)])

    assert -1e-9 <= low <= observed.mean() + 1e-9 and observed.mean() - 1e-9 <= high <= highest + 1e-9
    assert mirrored == pytest.approx((highest - high, highest - low), abs=1e-6)


@pytest.mark.parametrize(("gained", "same", "lost"), [(9, 10, 2), (2, 10, 9), (30, 60, 10), (1, 3, 6), (5, 8, 5)])
def test_p_of_paired_difference_is_mcnemar(gained, same, lost):
    """Tango's score test of no difference is McNemar's: z = (b - c) / sqrt(b + c)."""
    values = np.repeat([1, 0, -1], [gained, same, lost])

    p_value = score_test([stratum_from_values(values, -1, 1)])[2]

    assert p_value == pytest.approx(2 * norm.sf(abs(gained - lost) / sqrt(gained + lost)), abs=2e-4)
    assert (p_value < 0.05) == (
        not score_interval([stratum_from_values(values, -1, 1)])[0]
        <= 0
        <= score_interval([stratum_from_values(values, -1, 1)])[1]
    )


def test_a_ratio_has_the_interval_of_its_effective_sample_size():
    """Two episodes with 3 of 3 and five with 0 of 4; the variance is the linearised one, written out."""
    share = 6 / 26
    variance = (2 * (3 - 3 * share) ** 2 + 5 * (0 - 4 * share) ** 2) / 26**2
    effective = share * (1 - share) / variance

    bounds = ratio_interval(np.array([3, 0]), np.array([3, 4]), np.array([2, 5]))

    assert effective < 26 and bounds == pytest.approx(proportion_interval(share * effective, effective))


@pytest.mark.parametrize("seed", range(6))
def test_equivalence_is_that_the_90_percent_interval_is_within_the_margin(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    strata = [
        stratum_from_values(rng.choice([-100, 0, 100], 60 * (1 + seed), p=(0.1, 0.8, 0.1)), -100, 100) for _ in range(3)
    ]
    wanted = [(margin, score_tests(strata, margin)[3]) for margin in (1.0, 3.0, 5.0, 10.0, 30.0)]
    monkeypatch.setattr(intervals, "Z", norm.isf(0.05))
    low, high = score_interval(strata)

    for margin, p in wanted:
        assert (p < 0.05) == (-margin < low and high < margin), (margin, low, high)


def test_equivalence_agrees_with_scipy_in_large_samples():
    values = np.repeat([-100, 0, 100], [40, 1_900, 60])
    expected = ttest_1samp(values, 1.5, alternative="less").pvalue
    strata = [stratum_from_values(values, -100, 100)]

    assert score_tests(strata, 1.5)[3] == pytest.approx(expected, rel=0.02)
    assert score_tests(strata, 5.0)[3] < 1e-6 and score_tests(strata, 0.5)[3] == 1.0, "the mean itself is beyond 0.5"
