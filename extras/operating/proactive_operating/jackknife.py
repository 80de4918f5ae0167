"""Jackknife intervals of any measure of clustered samples, from its values with each cluster left out in turn.

The jackknife gives the standard error (Miller 1974, Biometrika 61:1-15). Student's t counts the degrees of freedom: fewer where
clusters are of unequal size (Bell and McCaffrey 2002, Survey Methodology 28:169-181) or few of them hold most of the variance
(Pan and Wall 2002, Statistics in Medicine 21:1429-1441).
"""

from collections.abc import Sequence
from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]

Floats = NDArray[np.float64]
MOST = 1000
"""Largest number of groups that are left out in turn; a larger number of clusters is merged into this many groups."""
UNDEFINED = 0.05
"""Share of groups that may leave a measure without a value when they are left out."""
ALIKE = 1.0
"""Assumed correlation within clusters: the value that gives unequal sizes the fewest degrees of freedom."""
NEGLIGIBLE = 1e-9
"""Largest influence of a cluster that counts as none; smaller ones underflow when they are squared."""
LEVEL = 0.975
"""One-sided level of a two-sided 95% interval."""


class Interval(NamedTuple):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


class LeftOut(NamedTuple):
    """A measure of one stratum without each of its clusters."""

    values: Floats
    """(clusters,)"""
    sizes: Floats
    """(clusters,) Number of samples of each cluster."""


class _Moments(NamedTuple):
    """Variance of the jackknife's estimate of one stratum, and the degrees of freedom of this variance."""

    variance: float
    freedom: float


def leave_out_weights(clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the weights of samples without each cluster (clusters, samples), and the clusters' sizes; rows sum to 1."""
    _, indices = np.unique(np.asarray(clusters), return_inverse=True)
    indices = indices % MOST
    sizes = np.bincount(indices).astype(np.float64)
    staying = (indices[None, :] != np.arange(len(sizes))[:, None]).astype(np.float64)
    rest = staying.sum(axis=1, keepdims=True)
    return np.divide(staying, rest, out=np.full_like(staying, nan), where=rest > 0), sizes


def jackknife_interval(value: float, strata: Sequence[LeftOut], low: float = -inf, high: float = inf) -> Interval:
    """Return a mean over independent strata with its interval, within ``low`` and ``high``.

    The limits are NaN unless each stratum has two clusters, or if the measure lacks a value for more than ``UNDEFINED`` of them.
    """
    moments = [_stratum_moments(stratum) for stratum in strata]
    if np.isnan(value) or None in moments:
        return Interval(value, nan, nan)
    variances = np.array([part.variance for part in moments if part]) / len(strata) ** 2
    variance = float(variances.sum())
    if not variance:
        return Interval(value, value, value)
    freedom = variance**2 / float(np.sum(variances**2 / [part.freedom for part in moments if part]))
    reach = float(stdtrit(freedom, LEVEL)) * variance**0.5
    return Interval(value, min(value, max(low, value - reach)), max(value, min(high, value + reach)))


def mean_interval(strata: Sequence[tuple[Floats, Sequence[str]]], low: float = -inf, high: float = inf) -> Interval:
    """Return the mean over strata of the mean of each one's values; NaN values are left out, and strata without any other.

    ``strata``: the values of samples, and each sample's cluster.
    """
    means, left_out = [], []
    for values, clusters in strata:
        known = ~np.isnan(values)
        if known.any():
            weights, sizes = leave_out_weights(np.asarray(clusters)[known].tolist())
            means.append(float(values[known].mean()))
            left_out.append(LeftOut(weights @ values[known], sizes))
    return jackknife_interval(float(np.mean(means)), left_out, low, high) if means else Interval(nan, nan, nan)


def _stratum_moments(stratum: LeftOut) -> _Moments | None:
    """Return the moments of one stratum's estimate; None if too few clusters have a value."""
    defined = ~np.isnan(stratum.values)
    count = int(defined.sum())
    if count < 2 or count < (1 - UNDEFINED) * len(defined):
        return None
    values = stratum.values[defined]
    influence = (count - 1) * (values.mean() - values)
    if np.abs(influence).max() <= NEGLIGIBLE:
        return _Moments(0.0, count - 1.0)
    freedom = min(_freedom_by_size(stratum.sizes[defined]), _freedom_by_moments(influence), count - 1)
    return _Moments(float(influence @ influence) / (count * (count - 1)), max(1.0, freedom))


def _freedom_by_size(sizes: Floats) -> float:
    """Return the degrees of freedom of the variance between clusters of these sizes.

    The covariance of the clusters' sums is that of the clusters, V, minus what subtracting the mean removes:
    (I - u1') V (I - 1u'), with u each cluster's share of the samples.
    """
    own, share = sizes * (1 + (sizes - 1) * ALIKE), sizes / sizes.sum()
    total, mixed, square = own.sum(), share @ own, share @ share
    trace = total - 2 * mixed + total * square
    squares = own @ own - 4 * (share @ own**2) + 2 * total * (own @ share**2)
    squares += 2 * square * (own @ own) + 2 * mixed**2 - 4 * total * mixed * square + total**2 * square**2
    return float(trace**2 / squares)


def _freedom_by_moments(influence: Floats) -> float:
    """Return the degrees of freedom of the variance of influences (clusters,): twice its square over its variance."""
    scaled = influence / np.abs(influence).max()
    kurtosis = len(scaled) * float((scaled**4).sum()) / float((scaled**2).sum()) ** 2
    return max(1.0, 2 * len(scaled) / (kurtosis - 1)) if kurtosis > 1 else float(len(scaled) - 1)
