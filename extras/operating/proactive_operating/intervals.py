"""The interval of the core for means over samples, stratified over scenarios, and the clusters that it counts."""

from collections.abc import Sequence
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.statistics.clustered import Estimate, average_means, estimate_mean, t_interval
from proactive_operating.policy import Floats

Stratum = tuple[Floats, NDArray[np.int64]]
"""Values of samples (n,), NaN where there is none, and the clusters of these samples (n,)."""
ENDS = ("", "_low", "_high")
"""Ends of the columns of a measure and its interval."""
NEGLIGIBLE = 1e-9
"""Values that differ by less are equal: the squares of smaller differences underflow."""


def mean_interval(strata: Sequence[Stratum], low: float = -inf, high: float = inf) -> Estimate:
    """Return the mean over strata of their means, with its 95% interval within ``low`` and ``high``.

    The limits are NaN unless each stratum has two clusters; a stratum without values is left out.
    """
    known = [(values[~np.isnan(values)], clusters[~np.isnan(values)]) for values, clusters in strata]
    means = [estimate_mean(_level(values), clusters, unit=0.0) for values, clusters in known if len(values)]
    if not means:
        return nan, nan, nan
    value = float(np.mean([mean.value for mean in means]))
    if any(mean.clusters < 2 for mean in means):
        return value, nan, nan
    if not any(mean.variance for mean in means):
        return value, value, value
    return t_interval(average_means(means), low, high)


def interval_columns(
    name: str, strata: Sequence[Stratum], low: float = -inf, high: float = inf
) -> dict[str, float | None]:
    """Return the columns of a measure with its interval (``mean_interval``); null where a value is unknown."""
    interval = mean_interval(strata, low, high)
    return {f"{name}{end}": None if np.isnan(value) else value for end, value in zip(ENDS, interval, strict=True)}


def _level(values: Floats) -> Floats:
    """Return the values, all equal to their mean if their differences are negligible."""
    return values if np.ptp(values) > NEGLIGIBLE else np.full(len(values), values.mean())


def linearize(value: float, samples: NDArray[np.int64], influences: Floats, count: int) -> Floats:
    """Return one value per sample (``count``,) whose mean is ``value`` and whose error is that of the measure.

    ``influences`` are those of observations, ``samples`` the sample of each; they sum to 0.
    """
    values: Floats = value + count * np.bincount(samples, influences, count).astype(np.float64)
    return values
