"""The 95% interval of one proportion: accuracy of a cell, loops, a judge's bits.

It holds the truth in 93% of cases or more, whatever the truth is, from ten samples on.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

Z = NormalDist().inv_cdf(0.975)
"""Standard errors of a two-sided 95% interval."""
SMALL_SAMPLE = 30
"""Degrees of freedom beyond n, of the t whose quantile (by its first expansion term) stands for the normal one."""


def proportion_interval(hits: float, n: float) -> tuple[float, float]:
    """The interval of a proportion, as shares; ``n`` may be an effective sample size."""
    low, high = proportion_bounds(hits, n)
    return max(0.0, float(low)), min(1.0, float(high))


def proportion_bounds(hits: Any, n: Any) -> tuple[Any, Any]:
    """Agresti and Coull's bounds (1998, Am. Stat. 52:119-126), with Student's t of n + 30 for the normal quantile.

    Its coverage is at least 93% for every proportion and n >= 10, by exact computation in the tests; Wilson's, 95% on
    average, falls to 84% where successes are rare. Plain arithmetic, so that numbers, arrays and polars columns may be given;
    bounds may lie outside 0 and 1.
    """
    weight = n + Z**2
    centre, quantile = (hits + Z**2 / 2) / weight, Z + (Z**3 + Z) / (4 * (n + SMALL_SAMPLE))
    half = quantile * (centre * (1 - centre) / weight) ** 0.5
    return centre - half, centre + half
