"""Interval and test of an average of skewed differences over strata, such as suggestions per episode.

Few episodes that loop to the turn limit skew differences of suggestions. Student's t then rejects a true null in up to 10% of
runs of 40 pairs, and a sign-flip test in 18%: it assumes symmetry, and studentizing does not repair it, because flipped signs
leave the sum of squares as it is. The statistic here is the studentized mean with Hall's cubic correction for skewness (1992,
J. R. Stat. Soc. B 54:221-228). The interval inverts the test, so p is below 0.05 exactly if 0 is outside.
Fewer pairs may have missed all loops: the score test allows for those (``orchestrator.report.statistics.intervals``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student  # type: ignore[import-untyped]

from orchestrator.report.statistics.intervals import Stratum, score_test

LEVEL = 0.975
"""One-sided level of a two-sided 95% interval."""
FEWEST = 30
"""Observations of a stratum (effective ones, if clustered) from which its skewness can be estimated."""


class _Moments(NamedTuple):
    """Estimated moments of the average of the strata's means."""

    mean: float
    error: float
    """Standard error."""
    skewness: float
    """Third central moment over the cube of the standard error."""
    freedom: float
    """Degrees of freedom of the standard error (Satterthwaite 1946)."""


def skewed_mean_test(strata: Sequence[Stratum]) -> tuple[float, float, float]:
    """Return the 95% interval of the unweighted average of the means of independent strata, and the two-sided p of 0.

    The interval is in the strata's unit, within their bounds. With a stratum of fewer than ``FEWEST`` observations, both are
    those of ``score_test``.
    """
    if min(stratum.counts.sum() for stratum in strata) < FEWEST:
        return score_test(strata)
    low, high = (float(np.mean([getattr(stratum, end) for stratum in strata])) for end in ("low", "high"))
    mean, error, skewness, freedom = _estimate_moments(strata)
    reach = float(student.ppf(LEVEL, freedom))
    bounds = (mean - error * undo_skewness_correction(reach * sign, skewness) for sign in (1, -1))
    lower, upper = (min(max(bound, low), high) for bound in bounds)
    p = float(2 * student.sf(abs(_corrected(mean / error, skewness)), freedom)) if mean else 1.0
    return lower, upper, min(p, 1.0)


def _estimate_moments(strata: Sequence[Stratum]) -> _Moments:
    """Return the moments of the average; a stratum of equal values counts as if one of them were a unit larger."""
    number, means, variances, thirds, freedoms = len(strata), [], [], [], []
    for stratum in strata:
        size = float(stratum.counts.sum())
        away = stratum.values - stratum.mean
        square = float(stratum.counts @ away**2) / size or (1 - 1 / size) / size
        means.append(stratum.mean)
        variances.append(square / (size - 1) / number**2)
        thirds.append(float(stratum.counts @ away**3) / size**3 / number**3)
        freedoms.append(size - 1)
    variance = float(np.sum(variances))
    freedom = variance**2 / float(np.sum(np.square(variances) / freedoms))
    return _Moments(float(np.mean(means)), variance**0.5, float(np.sum(thirds)) / variance**1.5, freedom)


def _corrected(studentized: float, skewness: float) -> float:
    """Return Hall's transformation of a studentized mean."""
    return float(studentized + skewness * studentized**2 / 3 + skewness**2 * studentized**3 / 27 + skewness / 6)


def undo_skewness_correction(value: float, skewness: float) -> float:
    """Return the studentized mean whose transformation is ``value``."""
    if abs(skewness) < 1e-6:
        return value
    return float(3 / skewness * (np.cbrt(1 + skewness * (value - skewness / 6)) - 1))
