"""Jackknife intervals of any measure of clustered samples, from its values with each cluster left out in turn.

A bootstrap's percentiles are too narrow for few clusters and for skewed measures. The jackknife gives the standard error
(Miller 1974, Biometrika 61:1-15), Hall's cubic transformation corrects for skewness (``means``), and Student's t counts
the degrees of freedom as ``clusters`` does: fewer where clusters are of unequal size or few hold most of the variance.
``python -m tests.orchestrator.operating.coverage`` measures coverage on planted values.
"""

from collections.abc import Sequence
from math import inf, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.statistics.agreement import IntervalEstimate
from orchestrator.report.statistics.clusters import fourth_moment_freedom, residual_moments
from orchestrator.report.statistics.means import skewed_limits

Floats = NDArray[np.float64]
MOST = 1000
"""Largest number of groups that are left out in turn; a larger number of clusters is merged into this many groups."""
UNDEFINED = 0.05
"""Share of groups that may leave a measure without a value when they are left out."""
ALIKE = 1.0
"""Assumed correlation within clusters: the value that gives unequal sizes the fewest degrees of freedom."""


class LeftOut(NamedTuple):
    """A measure of one stratum without each of its clusters."""

    values: Floats
    """(clusters,)"""
    sizes: Floats
    """(clusters,) Number of samples of each cluster."""


class _Moments(NamedTuple):
    """Moments of the jackknife's estimate of a mean over strata."""

    variance: float
    third: float
    """Third central moment."""
    freedom: float
    """Degrees of freedom of the variance."""


def leave_out_weights(clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the weights of samples without each cluster (clusters, samples), and the clusters' sizes; rows sum to 1."""
    _, indices = np.unique(np.asarray(clusters), return_inverse=True)
    indices = indices % MOST
    sizes = np.bincount(indices).astype(np.float64)
    staying = (indices[None, :] != np.arange(len(sizes))[:, None]).astype(np.float64)
    rest = staying.sum(axis=1, keepdims=True)
    return np.divide(staying, rest, out=np.full_like(staying, nan), where=rest > 0), sizes


def jackknife_interval(
    value: float, strata: Sequence[LeftOut], low: float = -inf, high: float = inf
) -> IntervalEstimate:
    """Return a mean over independent strata with its interval, within ``low`` and ``high``.

    The limits are NaN unless each stratum has two clusters, or if the measure lacks a value for more than ``UNDEFINED`` of them.
    """
    moments = [_stratum_moments(stratum) for stratum in strata]
    if np.isnan(value) or None in moments:
        return IntervalEstimate(value, nan, nan)
    variances = np.array([part.variance for part in moments if part]) / len(strata) ** 2
    variance = float(variances.sum())
    if not variance:
        return IntervalEstimate(value, value, value)
    freedom = variance**2 / float(np.sum(variances**2 / [part.freedom for part in moments if part]))
    skewness = sum(part.third for part in moments if part) / len(strata) ** 3 / variance**1.5
    lower, upper = skewed_limits(value, variance**0.5, skewness, freedom, (low, high))
    return IntervalEstimate(value, min(lower, value), max(upper, value))


def _stratum_moments(stratum: LeftOut) -> _Moments | None:
    """Return the moments of one stratum's estimate; None if too few clusters have a value."""
    defined = ~np.isnan(stratum.values)
    count = int(defined.sum())
    if count < 2 or count < (1 - UNDEFINED) * len(defined):
        return None
    values = stratum.values[defined]
    influence = (count - 1) * (values.mean() - values)
    if not influence.any():
        return _Moments(0.0, 0.0, count - 1.0)
    _, by_size = residual_moments(stratum.sizes[defined], ALIKE)
    freedom = max(1.0, min(by_size, fourth_moment_freedom(influence), count - 1))
    return _Moments(
        float(influence @ influence) / (count * (count - 1)), float((influence**3).sum()) / count**3, freedom
    )
