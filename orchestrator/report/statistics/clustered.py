"""The intervals and tests of shares, means, differences and averages: Student's t over clusters of samples, and exact tests.

The variance is CR2 and its degrees of freedom are Satterthwaite's (Bell and McCaffrey 2002, Survey Methodology 28:169-181),
which for independent samples is the usual t. An average weighs its strata, the scenarios, equally. Suggestions are skewed by
few episodes that end at the turn limit: their p is the larger one of t and of t corrected for skewness (Hall 1992, J. R. Stat.
Soc. B 54:221-228), and their interval covers both.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit  # type: ignore[import-untyped]

from orchestrator.report.statistics.proportion import Z, proportion_bounds

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Estimate = tuple[Any, Any, Any]
"""Values and the bounds of their 95% intervals: numbers, or arrays of one length."""
ALPHA = 0.05
LEVEL = 0.975
"""One-sided level of a two-sided 95% interval."""
unknown_is_nan = np.errstate(invalid="ignore", divide="ignore")


class Mean(NamedTuple):
    """Means with the moments of their errors: numbers, or arrays of one length."""

    value: Any
    variance: Any
    """NaN with fewer than two clusters."""
    third: Any
    """Third central moment of the error."""
    freedom: Any
    """Degrees of freedom of the variance."""
    clusters: Any
    """Number of clusters, or of values that are independent."""
    is_flat: Any = False
    """True if all values are equal."""


class Units:
    """The independent units of values (n,): each value occurs ``counts`` times and belongs to one of ``size`` means.

    ``owners`` (n,) number the means from 0. Values of one mean with equal ``clusters`` are one unit; a value with a negative
    cluster is a unit of its own.
    """

    @unknown_is_nan
    def __init__(self, owners: Integers, clusters: Integers | None, counts: Integers | None, size: int) -> None:
        self.owners, self.size = owners, size
        self.weights: Floats = np.ones(len(owners)) if counts is None else counts.astype(np.float64)
        self.total = self.sum(np.ones(len(owners)))
        self.units, first = np.arange(len(owners)), np.arange(len(owners))
        alone = np.ones(len(owners), dtype=np.bool_)
        if clusters is not None and len(owners):
            names = np.where(clusters < 0, clusters.max() + 1 + np.arange(len(owners)), clusters)
            _, first, self.units = np.unique(owners * (names.max() + 1) + names, return_index=True, return_inverse=True)
            alone = clusters[first] < 0
        self.repeats = np.where(alone, self.weights[first], 1.0)
        self.unit_owners: Integers = owners[first]
        sizes = np.bincount(self.units, self.weights)
        self.shares: Floats = sizes / self.repeats / self.total[self.unit_owners]
        self.number = self._sum_units(np.ones(len(first)))
        cross = self.shares**2 / (1 - self.shares)
        products = self._sum_units(self.shares**2) + self._sum_units(cross) ** 2 - self._sum_units(cross**2)
        self.is_independent = self._sum_units(~alone) == 0
        self.freedom = np.where(self.is_independent, self.number - 1, 1 / products)  # Satterthwaite's for CR2

    def sum(self, values: NDArray[Any]) -> Floats:
        """Return the sum of the values of each mean, each as often as it occurs."""
        return np.bincount(self.owners, self.weights * values, self.size).astype(np.float64)

    def _sum_units(self, values: NDArray[Any]) -> Floats:
        return np.bincount(self.unit_owners, self.repeats * values, self.size).astype(np.float64)

    @unknown_is_nan
    def means(self, values: NDArray[Any], unit: float = 1.0) -> Mean:
        """Return the means of values (n,); NaN where there is no value.

        Where all values are equal, the variance is that of one cluster whose mean is a ``unit`` larger.
        """
        mean, some = self.sum(values) / self.total, np.full(self.size, np.nan)
        some[self.owners] = values
        errors = np.bincount(self.units, self.weights * (values - mean[self.owners])) / self.repeats
        variance = self._sum_units(errors**2 / (1 - self.shares)) / self.total**2
        variance = np.maximum(variance, (unit / self.total / self.number) ** 2)  # clusters may balance exactly
        third, has_variance = self._sum_units(errors**3) / self.total**3, self.number > 1
        flat = (self.sum(values != some[self.owners]) == 0) & (self.number > 0)
        variance = np.where(flat, (unit / self.number) ** 2, variance)
        freedom = np.where(flat, self.number - 1, self.freedom)
        return Mean(
            mean, np.where(has_variance, variance, np.nan), np.where(flat, 0.0, third),
            np.where(has_variance, freedom, 0.0), self.number, flat,
        )  # fmt: skip


def estimate_mean(
    values: NDArray[np.generic], groups: Integers | None = None, counts: Integers | None = None, unit: float = 1.0
) -> Mean:
    """Return the mean of values (n,) that occur ``counts`` times each; ``groups`` (n,) are their clusters."""
    clusters = None if groups is None else np.unique(groups, return_inverse=True)[1]
    means = Units(np.zeros(len(values), dtype=np.int64), clusters, counts, 1).means(values, unit)
    return Mean(*(figure[0] for figure in means))


def average_means(means: Sequence[Mean]) -> Mean:
    """Return the unweighted average of independent means."""
    averages = average_strata(Mean(*map(np.array, zip(*means, strict=True))), np.zeros(len(means), dtype=np.int64))
    return Mean(*(figure[0] for figure in averages))


@unknown_is_nan
def average_strata(means: Mean, owners: Integers) -> Mean:
    """Return the unweighted averages of independent means (k,), by owner; their freedom combines (Satterthwaite 1946).

    A stratum whose values are all equal has no variance, unless all strata are like that.
    """
    number, value, third, clusters, flat = (
        np.bincount(owners, figures)
        for figures in (np.ones(len(owners)), means.value, means.third, means.clusters, means.is_flat)
    )
    all_flat = flat == number
    variances = np.where(means.is_flat & ~all_flat[owners], 0.0, means.variance)
    variance = np.bincount(owners, variances)
    freedom = variance**2 / np.bincount(owners, variances**2 / np.maximum(means.freedom, 1))
    return Mean(value / number, variance / number**2, third / number**3, freedom, clusters, all_flat)


def ratio_values(hits: Integers, totals: Integers, ratio: Any, mean_total: Any) -> Floats:
    """Return one value per unit whose mean is the ratio and whose error is that of the ratio (linearized)."""
    return np.asarray(ratio + (hits - ratio * totals) / mean_total, dtype=np.float64)


def t_interval(mean: Mean, low: Any = -np.inf, high: Any = np.inf) -> Estimate:
    """Return the mean with its interval, cut at ``low`` and ``high``; both bounds are NaN if the variance is unknown."""
    reach = stdtrit(mean.freedom, LEVEL) * mean.variance**0.5
    return mean.value, np.clip(mean.value - reach, low, high), np.clip(mean.value + reach, low, high)


def t_test(mean: Mean) -> Any:
    """Return the two-sided p of a true mean of 0: below 0.05 if it is outside ``t_interval``."""
    return 2 * stdtr(mean.freedom, -abs(mean.value) / mean.variance**0.5)


def equivalence_test(mean: Mean, margin: float) -> Any:
    """Return the p of a true mean ``margin`` or more away from 0, by two one-sided tests (Schuirmann 1987)."""
    return stdtr(mean.freedom, (abs(mean.value) - margin) / mean.variance**0.5)


@unknown_is_nan
def skewed_test(mean: Mean) -> tuple[Any, Any, Any, Any]:
    """Return the mean, an interval and the p of 0 that hold for skewed differences too: the wider and larger of two tests.

    The p of a single value is 1.
    """
    error, skewness = mean.variance**0.5, mean.third / mean.variance**1.5
    reach = stdtrit(mean.freedom, LEVEL)
    ends = np.array([reach, -reach, *(_undo_skewness_correction(q, skewness) for q in (reach, -reach))])
    limits = mean.value - error * ends
    studentized = mean.value / error
    corrected = studentized + skewness * studentized**2 / 3 + skewness**2 * studentized**3 / 27 + skewness / 6  # Hall
    p = 2 * stdtr(mean.freedom, -abs(corrected))
    p = np.fmin(1.0, np.maximum(np.where(mean.value == 0, 1.0, p), t_test(mean)))
    return mean.value, limits.min(axis=0), limits.max(axis=0), p


def mcnemar(gained: Integers, lost: Integers) -> Floats:
    """Return the exact two-sided p of equal chances for gained and lost pairs (McNemar 1947); 1 without discordant pairs."""
    return np.asarray(np.minimum(1.0, 2 * bdtr(np.minimum(gained, lost), gained + lost, 0.5)), dtype=np.float64)


def holm(p: Floats, family: int = 0) -> Floats:
    """Return Holm's step-down adjusted p (1979), which keep the chance of any false finding in the family below alpha.

    ``family`` is the number of declared comparisons, including those without data; by default the length of ``p``.
    """
    order = np.argsort(p, kind="stable")
    remaining = np.arange(max(family, len(p)), 0, -1)[: len(p)]
    stepped = np.maximum.accumulate(p[order] * remaining)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


@unknown_is_nan
def share_interval(mean: Mean, most: Any) -> Estimate:
    """Return a share in percent, from values of 0 and 100, with its score interval.

    Over clusters it is the interval of as many independent samples, at most ``most``, as have the variance of the clusters,
    with Student's t in place of the normal quantile (Korn and Graubard 1998, Survey Methodology 24:193-201).
    """
    share, is_clustered = mean.value / 100, (mean.clusters < most) & (mean.freedom > 0)
    quantile = np.where(is_clustered, stdtrit(mean.freedom, LEVEL), Z)
    effective = np.maximum(1.0, np.minimum(1e4 * share * (1 - share) / mean.variance, most))
    size = np.where(is_clustered & (share > 0) & (share < 1), effective, mean.clusters)
    low, high = (np.clip(100 * end, 0, 100) for end in proportion_bounds(share * size, size, quantile))
    return mean.value, np.minimum(low, mean.value), np.maximum(high, mean.value)


def _undo_skewness_correction(value: Any, skewness: Any) -> Any:
    """Return the studentized mean that Hall's correction makes ``value``."""
    is_skewed = abs(skewness) >= 1e-6
    scale = np.where(is_skewed, skewness, 1.0)
    return np.where(is_skewed, 3 / scale * (np.cbrt(1 + scale * (value - scale / 6)) - 1), value)
