"""The one interval and test of means, differences and averages: Student's t over clusters of samples.

The variance is CR2 and its degrees of freedom are Satterthwaite's (Bell and McCaffrey 2002, Survey Methodology 28:169-181),
which for independent samples is the usual t. An average weighs its strata, the scenarios, equally. Suggestions are skewed by
few episodes that end at the turn limit: their p is the larger one of t and of t corrected for skewness (Hall 1992, J. R. Stat.
Soc. B 54:221-228), and their interval covers both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]

from orchestrator.report.statistics.proportion import Z, proportion_interval

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Estimate = tuple[float, float, float]
"""A value and the bounds of its 95% interval."""
LEVEL = 0.975
"""One-sided level of a two-sided 95% interval."""


class Mean(NamedTuple):
    """A mean with the moments of its error."""

    value: float
    variance: float
    """NaN with fewer than two clusters."""
    third: float
    """Third central moment of the error."""
    freedom: float
    """Degrees of freedom of the variance."""
    clusters: float
    """Number of clusters, or of values that are independent."""
    is_flat: bool = False
    """True if all values are equal."""


def estimate_mean(
    values: NDArray[np.generic], groups: Integers | None = None, counts: Integers | None = None, unit: float = 1.0
) -> Mean:
    """Return the mean of values (n,) that occur ``counts`` times each; ``groups`` (n,) are their clusters.

    Where all values are equal, the variance is that of one cluster whose mean is a ``unit`` larger.
    """
    data: Floats = values.astype(np.float64)
    weights: Floats = np.ones(len(data)) if counts is None else counts.astype(np.float64)
    total = float(weights.sum())
    mean = float(weights @ data) / total
    if groups is None:
        errors, repeats, shares = data - mean, weights, np.full(len(data), 1 / total)
    else:
        _, indices = np.unique(groups, return_inverse=True)
        errors = np.bincount(indices, weights * (data - mean)).astype(np.float64)
        shares = np.bincount(indices, weights) / total
        repeats = np.ones(len(errors))
    number = float(repeats.sum())
    if number < 2:
        return Mean(mean, float("nan"), 0.0, 0.0, number, np.ptp(data) == 0)
    variance = float(repeats @ (errors**2 / (1 - shares))) / total**2
    if np.ptp(data) == 0:
        return Mean(mean, (unit / number) ** 2, 0.0, number - 1, number, True)
    freedom = number - 1 if groups is None else _satterthwaite(shares)
    variance = max(variance, (unit / total / number) ** 2)  # clusters that balance exactly leave no error to see
    return Mean(mean, variance, float(repeats @ errors**3) / total**3, freedom, number)


def _satterthwaite(shares: Floats) -> float:
    """Return the degrees of freedom of CR2 for clusters with these shares of all values, which are alike if independent."""
    cross = shares**2 / (1 - shares)
    return float(1 / ((shares**2).sum() + cross.sum() ** 2 - (cross**2).sum()))


def average_means(means: Sequence[Mean]) -> Mean:
    """Return the unweighted average of independent means; its freedom combines theirs (Satterthwaite 1946).

    A stratum whose values are all equal has no variance, unless all strata are like that.
    """
    number = len(means)
    value, variances, thirds, freedoms, clusters, flat = map(np.array, zip(*means, strict=True))
    variances = variances if flat.all() else np.where(flat, 0.0, variances)
    variance = float(variances.sum()) / number**2
    freedom = float(variances.sum() ** 2 / np.sum(variances**2 / np.maximum(freedoms, 1)))
    third = float(thirds.sum()) / number**3
    return Mean(float(value.mean()), variance, third, freedom, float(clusters.sum()), bool(flat.all()))


def ratio_values(hits: Integers, totals: Integers, ratio: float, mean_total: float) -> Floats:
    """Return one value per unit whose mean is the ratio and whose error is that of the ratio (linearized)."""
    return ratio + (hits - ratio * totals) / mean_total


def t_interval(mean: Mean, low: float = -np.inf, high: float = np.inf) -> Estimate:
    """Return the mean with its interval, cut at ``low`` and ``high``; both bounds are NaN if the variance is unknown."""
    reach = float(stdtrit(mean.freedom, LEVEL)) * mean.variance**0.5
    return mean.value, _clip(mean.value - reach, low, high), _clip(mean.value + reach, low, high)


def t_test(mean: Mean, null: float = 0.0) -> float:
    """Return the two-sided p of a true mean of ``null``: below 0.05 if it is outside ``t_interval``."""
    return float(2 * stdtr(mean.freedom, -abs(mean.value - null) / mean.variance**0.5))


def equivalence_test(mean: Mean, margin: float) -> float:
    """Return the p of a true mean ``margin`` or more away from 0, by two one-sided tests (Schuirmann 1987)."""
    return float(stdtr(mean.freedom, (abs(mean.value) - margin) / mean.variance**0.5))


def skewed_test(mean: Mean, low: float = -np.inf, high: float = np.inf) -> tuple[float, float, float, float]:
    """Return the mean, an interval and the p of 0 that hold for skewed differences too: the wider and larger of two tests."""
    error, skewness = mean.variance**0.5, mean.third / mean.variance**1.5
    reach = float(stdtrit(mean.freedom, LEVEL))
    limits = [mean.value - error * end for q in (reach, -reach) for end in (q, undo_skewness_correction(q, skewness))]
    p = float(2 * stdtr(mean.freedom, -abs(_correct_skewness(mean.value / error, skewness)))) if mean.value else 1.0
    return mean.value, _clip(min(limits), low, high), _clip(max(limits), low, high), min(1.0, max(p, t_test(mean)))


def share_interval(mean: Mean, most: float) -> Estimate:
    """Return a share in percent, from values of 0 and 100, with its score interval.

    Over clusters it is the interval of as many independent samples, at most ``most``, as have the variance of the clusters,
    with Student's t in place of the normal quantile (Korn and Graubard 1998, Survey Methodology 24:193-201).
    """
    share, size, quantile = mean.value / 100, mean.clusters, Z
    if mean.clusters < most and mean.freedom > 0:
        quantile = float(stdtrit(mean.freedom, LEVEL))
        if 0 < share < 1:
            size = max(1.0, min(1e4 * share * (1 - share) / mean.variance, most))
    low, high = proportion_interval(share * size, size, quantile)
    return mean.value, min(100 * low, mean.value), max(100 * high, mean.value)


def _clip(value: float, low: float, high: float) -> float:
    return value if np.isnan(value) else min(max(value, low), high)


def _correct_skewness(studentized: float, skewness: float) -> float:
    """Return Hall's transformation of a studentized mean."""
    return float(studentized + skewness * studentized**2 / 3 + skewness**2 * studentized**3 / 27 + skewness / 6)


def undo_skewness_correction(value: float, skewness: float) -> float:
    """Return the studentized mean whose transformation is ``value``."""
    if abs(skewness) < 1e-6:
        return value
    return float(3 / skewness * (np.cbrt(1 + skewness * (value - skewness / 6)) - 1))
