"""The mean effect over models and scenarios that are both taken as drawn: a two-way analysis of variance with random effects.

The table has one difference of every model in every scenario. Its mean varies with the models, with the scenarios, and with
what is particular to both and to the samples; each part is estimated from the mean squares (Searle, Casella and McCulloch
1992, Variance Components, chapter 4), with Satterthwaite's degrees of freedom (1946). Nothing is assumed of the differences'
shape but finite variances, so it holds in points too, where a logistic model would be additive in logits only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student  # type: ignore[import-untyped]

LEVEL = 0.975
"""One-sided level of a two-sided 95% interval."""


class CrossedMean(NamedTuple):
    """The mean over rows and columns, its 95% interval, p of 0, and the standard deviations of its parts."""

    value: float
    low: float
    high: float
    p: float
    rows: float
    """Standard deviation over rows, of the effects themselves."""
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
    reach = float(student.ppf(LEVEL, freedom)) * error
    p = float(2 * student.sf(abs(value) / error, freedom))
    spreads = (max(square - rest, 0.0) / size for square, size in ((row_square, columns), (column_square, rows)))
    by_rows, by_columns = (spread**0.5 for spread in spreads)
    return CrossedMean(value, value - reach, value + reach, p, by_rows, by_columns, rest**0.5)
