"""Means whose error needs a model of its own: over models and scenarios as random samples, and of skewed differences.

The crossed mean is a two-way analysis of variance with random effects. Its variance has a part of the models, of the scenarios,
and of the rest (their interaction and the sampling of episodes); each part is estimated from the mean squares (Searle, Casella
and McCulloch 1992, Variance Components, chapter 4), with Satterthwaite's degrees of freedom (1946). It assumes only
that the differences have finite variances, so it holds in points too, where a logistic model would be additive in logits only.

Differences of suggestions per episode are skewed by few episodes that loop to the turn limit. Student's t then rejects a true
null in up to 10% of runs of 40 pairs, and a sign-flip test in 18%: it assumes symmetry, and studentizing does not repair it,
because flipped signs leave the sum of squares as it is. The statistic here is the studentized mean with Hall's cubic
correction for skewness (1992, J. R. Stat. Soc. B 54:221-228). The interval inverts the test, so p is below 0.05 exactly if 0
is outside. With fewer than ``FEWEST`` pairs, all loops may have been missed by chance; the score test allows for that
(``orchestrator.report.statistics.intervals``).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]

from orchestrator.report.statistics.clusters import LEVEL
from orchestrator.report.statistics.intervals import Stratum, score_test


class CrossedMean(NamedTuple):
    """The mean over rows and columns, its 95% interval, p of 0, and the standard deviations of its parts."""

    value: float
    low: float
    high: float
    p: float
    rows: float
    """Standard deviation of the true effects of rows, without sampling error."""
    columns: float
    rest: float
    """Standard deviation of what rows and columns do not explain, sampling error included."""


def crossed_mean(effects: NDArray[np.float64]) -> CrossedMean | None:
    """Return the mean of a table (rows, columns); None with fewer than three of either, or where all entries are equal.

    Where the variance of rows or columns is estimated as 0 or less, the interval counts the larger mean square alone.
    """
    rows, columns = effects.shape
    if min(rows, columns) < 3 or not np.ptp(effects):
        return None
    value = float(effects.mean())
    by_row, by_column = effects.mean(axis=1), effects.mean(axis=0)
    residual = effects - by_row[:, None] - by_column[None, :] + value
    row_square = columns * float(by_row.var(ddof=1))
    column_square = rows * float(by_column.var(ddof=1))
    rest = float((residual**2).sum()) / ((rows - 1) * (columns - 1))
    total = max(row_square + column_square - rest, row_square, column_square)
    freedom = total**2 / (row_square**2 / (rows - 1) + column_square**2 / (columns - 1))
    error, freedom = (total / effects.size) ** 0.5, max(freedom, min(rows, columns) - 1.0)
    reach = float(stdtrit(freedom, LEVEL)) * error
    p = float(2 * stdtr(freedom, -abs(value) / error))
    spreads = (max(square - rest, 0.0) / size for square, size in ((row_square, columns), (column_square, rows)))
    by_rows, by_columns = (spread**0.5 for spread in spreads)
    return CrossedMean(value, value - reach, value + reach, p, by_rows, by_columns, rest**0.5)


FEWEST = 30
"""Fewest observations of a stratum (effective ones, if clustered) that estimate its skewness."""


def skewed_mean_test(strata: Sequence[Stratum]) -> tuple[float, float, float]:
    """Return the 95% interval of the unweighted average of the means of independent strata, and the two-sided p of 0.

    The interval is in the strata's unit, within their bounds. With a stratum of fewer than ``FEWEST`` observations, both are
    those of ``score_test``.
    """
    if min(stratum.counts.sum() for stratum in strata) < FEWEST:
        return score_test(strata)
    low, high = (float(np.mean([getattr(stratum, end) for stratum in strata])) for end in ("low", "high"))
    mean, error, skewness, freedom = _estimate_moments(strata)
    p = float(2 * stdtr(freedom, -abs(_corrected(mean / error, skewness)))) if mean else 1.0
    return *skewed_limits(mean, error, skewness, freedom, (low, high)), min(p, 1.0)


def skewed_limits(
    mean: float, error: float, skewness: float, freedom: float, within: tuple[float, float]
) -> tuple[float, float]:
    """Return the 95% limits of a mean from its moments, corrected for skewness, no further than ``within``."""
    reach = float(stdtrit(freedom, LEVEL))
    limits = (mean - error * undo_skewness_correction(sign * reach, skewness) for sign in (1, -1))
    low, high = (min(max(limit, within[0]), within[1]) for limit in limits)
    return low, high


def _estimate_moments(strata: Sequence[Stratum]) -> tuple[float, float, float, float]:
    """Return the moments of the average of the strata's means: mean, standard error, skewness, degrees of freedom.

    The skewness is the third central moment over the cube of the standard error; the degrees of freedom are those of the
    standard error (Satterthwaite 1946). A stratum of equal values counts as if one of them were a unit larger.
    """
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
    return float(np.mean(means)), variance**0.5, float(np.sum(thirds)) / variance**1.5, freedom


def _corrected(studentized: float, skewness: float) -> float:
    """Return Hall's transformation of a studentized mean."""
    return float(studentized + skewness * studentized**2 / 3 + skewness**2 * studentized**3 / 27 + skewness / 6)


def undo_skewness_correction(value: float, skewness: float) -> float:
    """Return the studentized mean whose transformation is ``value``."""
    if abs(skewness) < 1e-6:
        return value
    return float(3 / skewness * (np.cbrt(1 + skewness * (value - skewness / 6)) - 1))
