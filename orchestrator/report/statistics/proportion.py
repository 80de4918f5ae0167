"""The 95% interval of one proportion, with a coverage of at least 93% for every true proportion and n >= 10."""

from statistics import NormalDist
from typing import Any

Z = NormalDist().inv_cdf(0.975)
"""Standard errors of a two-sided 95% interval."""
SMALL_SAMPLE = 30
"""The quantile is that of Student's t with n plus this many degrees of freedom, to the first term of its expansion."""


def proportion_interval(hits: float, n: float) -> tuple[float, float]:
    """Return the bounds of a proportion, as shares in [0, 1]; ``n`` may be an effective sample size."""
    low, high = proportion_bounds(hits, n)
    return max(0.0, float(low)), min(1.0, float(high))


def proportion_bounds(hits: Any, n: Any) -> tuple[Any, Any]:
    """Return Agresti and Coull's bounds (1998, Am. Stat. 52:119-126), with Student's t of n + 30 for the normal quantile.

    The coverage is at least 93% for every proportion and n >= 10, by exact computation in the tests; Wilson's, 95% on
    average, falls to 84% where successes are rare. Numbers, arrays and polars columns are accepted. Bounds may lie outside
    [0, 1].
    """
    weight = n + Z**2
    center, quantile = (hits + Z**2 / 2) / weight, Z + (Z**3 + Z) / (4 * (n + SMALL_SAMPLE))
    half = quantile * (center * (1 - center) / weight) ** 0.5
    return center - half, center + half
