"""Score intervals of means of bounded counts: one proportion, a mean number of suggestions, a paired difference, an average.

A mean is in the interval if the data do not reject it: |observed - mean| <= z * standard error, the error taken from the
distribution that fits the data best among those with that mean, over all values that the game allows and not only those
seen. It follows that no interval collapses where all episodes agree: ten episodes without a loop do not exclude loops.
For a paired difference of proportions this is Tango's interval (1998, Statistics in Medicine 17:891-908), for an average over
strata the score interval under constrained maximum likelihood. One proportion alone has a wider one
(``orchestrator.report.proportion``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm  # type: ignore[import-untyped]

from orchestrator.report.clusters import effective_size
from orchestrator.report.proportion import Z, proportion_interval

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

TILTS = np.geomspace(1e-7, 1e9, 1_000)
REMAINDERS = 1 / (1 + np.geomspace(1e-8, 1e8, 1_000))
"""Grids on which the constrained distributions are computed; bounds are right to 1e-4 of the range."""
ROUNDING = 1e-12
"""Relative error of sums; a smaller distance is none."""


class Stratum(NamedTuple):
    """Observed whole values of one cell, as a histogram."""

    values: Whole
    """Distinct values (kinds,)."""
    counts: Floats
    """How often each was seen (kinds,), all above 0; of clustered samples scaled to the effective sample size."""
    low: float
    """The least value that the game allows."""
    high: float
    """The greatest value that the game allows."""

    @property
    def mean(self) -> float:
        return float(self.counts @ self.values / self.counts.sum())


class _Path(NamedTuple):
    """Best-fitting distributions as their mean distance from a bound goes to 0: one entry a Lagrange multiplier."""

    multiplier: Floats
    mean: Floats
    variance: Floats


class _Side(NamedTuple):
    """Mean distances from a bound, falling from the observed one, and how many standard errors each is away from it."""

    mean: Floats
    standardised: Floats


def histogram(values: Whole, low: float, high: float, groups: Whole | None = None) -> Stratum:
    """The stratum of single observations (n,); bounds are widened to what was seen. ``groups`` (n,) are their clusters."""
    distinct, seen = np.unique(values, return_counts=True)
    scale = 1.0 if groups is None else effective_size(values, groups, Z) / len(values)
    return Stratum(
        distinct,
        np.asarray(seen * scale, dtype=np.float64),
        min(low, float(distinct[0])),
        max(high, float(distinct[-1])),
    )


def histogram_of(values: Whole, counts: Whole, low: float, high: float) -> Stratum:
    """The stratum of values (kinds,), not all distinct, that were seen ``counts`` times each."""
    distinct, place = np.unique(values, return_inverse=True)
    seen: Floats = np.bincount(place, counts).astype(np.float64)
    return Stratum(distinct, seen, min(low, float(distinct[0])), max(high, float(distinct[-1])))


def score_interval(strata: Sequence[Stratum]) -> tuple[float, float]:
    """The interval of the unweighted average of the strata's means; independent strata, 95%."""
    return _limits(strata, _side(strata, upwards=False), _side(strata, upwards=True))


def score_test(strata: Sequence[Stratum]) -> tuple[float, float, float]:
    """``score_interval``, and the two-sided p of an average of 0: below 0.05 where 0 is outside the interval."""
    below, above = _side(strata, upwards=False), _side(strata, upwards=True)
    average = float(np.mean([one.mean for one in strata]))
    towards = above if average < 0 else below
    if average == 0 or towards is None:
        return *_limits(strata, below, above), 1.0
    bound = float(np.mean([one.high if average < 0 else -one.low for one in strata]))
    p = float(2 * norm.sf(np.interp(bound, towards.mean[::-1], towards.standardised[::-1])))
    return *_limits(strata, below, above), p


def _limits(strata: Sequence[Stratum], below: _Side | None, above: _Side | None) -> tuple[float, float]:
    low, high = (float(np.mean([getattr(one, end) for one in strata])) for end in ("low", "high"))
    return low + _mean_distance(below), high - _mean_distance(above)


def ratio_interval(part: Whole, whole: Whole, counts: Whole) -> tuple[float, float]:
    """The interval of sum(part) / sum(whole) over episodes (kinds,) that occur ``counts`` times, as shares.

    The interval of a proportion at the effective sample size that the linearised variance between episodes gives (Korn and
    Graubard 1998, Survey Methodology 24:193-201); where all agree, the number of episodes.
    """
    n, total = float(counts.sum()), float(counts @ whole)
    share = float(counts @ part) / total
    variance = float(counts @ (part - share * whole) ** 2) / total**2
    effective = n if variance == 0 else min(share * (1 - share) / variance, total)
    return proportion_interval(share * effective, effective)


def combined(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """The interval of the average of independent estimates (value, low, high): MOVER (Zou and Donner 2008)."""
    value, low, high = np.array(parts).T
    mean, number = float(value.mean()), len(value)
    below, above = np.sqrt(((value - low) ** 2).sum()) / number, np.sqrt(((high - value) ** 2).sum()) / number
    return mean - float(below), mean + float(above)


def _distances(stratum: Stratum, upwards: bool) -> tuple[Floats, Floats]:
    """Distances of the values from a bound (kinds,) and their counts."""
    away = stratum.high - stratum.values if upwards else stratum.values - stratum.low
    return away.astype(np.float64), stratum.counts.astype(np.float64)


def _mean_distance(side: _Side | None) -> float:
    """The least mean distance from the bound that the data do not reject."""
    if side is None:
        return 0.0
    first = int(np.argmax(side.standardised >= Z))
    before = max(first - 1, 0)
    return float(np.interp(Z, side.standardised[[before, first]], side.mean[[before, first]]))


def _side(strata: Sequence[Stratum], upwards: bool) -> _Side | None:
    """Distances from the upper bounds, or from the lower ones; None where every value lies at its bound."""
    found = [_distances(one, upwards) for one in strata]
    return _standardised(found) if any(away.any() for away, _ in found) else None


def _standardised(strata: Sequence[tuple[Floats, Floats]]) -> _Side:
    """Every mean that the average could have, between the observed one and the bound."""
    observed = float(np.mean([counts @ away / counts.sum() for away, counts in strata]))
    paths = [(_path(away, counts), counts.sum()) for away, counts in strata if away.any()]
    grid = np.unique(np.concatenate([np.log(path.multiplier) for path, _ in paths]))
    mean, variance = np.zeros(len(grid)), np.zeros(len(grid))
    for path, n in paths:
        at = np.log(path.multiplier)
        mean += np.interp(grid, at, path.mean) / len(strata)
        variance += np.interp(grid, at, path.variance) / n / len(strata) ** 2
    moved = np.where(observed - mean > ROUNDING * observed, observed - mean, 0.0)
    return _Side(mean, moved / np.sqrt(np.maximum(variance, np.finfo(float).tiny)))


def _path(away: Floats, counts: Floats) -> _Path:
    """Likeliest distributions over ``away`` and 0 as a Lagrange multiplier pulls their mean to 0.

    Each has p_j = c_j / (a + t r_j); where no episode was seen at the bound and t is large, a is 0 and the rest is there.
    """
    tilt = TILTS[:, None] / away.max()
    weights = counts / (1 + tilt * away)
    scale = weights.sum(axis=1)
    chances = weights / scale[:, None]
    multiplier = tilt[:, 0] * scale
    if away.min() > 0:
        last = counts / away
        chances = np.vstack([chances, REMAINDERS[:, None] * last / last.sum()])
        multiplier = np.concatenate([multiplier, last.sum() / REMAINDERS])
    mean = chances @ away
    return _Path(multiplier, mean, chances @ away**2 - mean**2)
