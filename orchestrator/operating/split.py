"""Splits the difference between two models at equal numbers of suggestions: asking more, and asking better.

Let A and A' be the curves of accuracy over suggestions N, and (n, a), (n', a') the models' own points on them. Moving along
the first curve from n to n' changes a to A(n'); the rest of the way to a' is a move to the other curve. The opposite way moves
along the second curve. The mean of both ways gives ``more`` + ``better`` = a' - a. Curves are never extrapolated: where
the other model's number of suggestions lies outside a curve, that scenario has no split.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit  # type: ignore[import-untyped]

from orchestrator.operating.policy import NEUTRAL_INDEX, Floats

DRAWS = 1000
"""Bootstrap draws of an interval."""


class Curve(NamedTuple):
    """The curve of a model in one scenario, sample by sample."""

    accuracy: Floats
    """(samples, biases)"""
    suggestions: Floats
    """(samples, biases), rising with the bias."""

    def mean(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return accuracy and suggestions by bias, averaged over samples; ``weights`` (..., samples) sum to 1."""
        return weights @ self.accuracy, np.maximum.accumulate(weights @ self.suggestions, axis=-1)


class Split(NamedTuple):
    """A difference in accuracy (0 to 1) and its two parts; all NaN where a curve would be extrapolated."""

    difference: float
    more: float
    better: float


class Interval(NamedTuple):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


def split(before: Curve, after: Curve, weights: Floats) -> Split:
    """Return the parts of the difference between two curves over the same samples."""
    return _split(before.mean(weights), after.mean(weights))


def split_draws(before: Curve, after: Curve, weights: Floats) -> Floats:
    """Return the parts of the difference under each row of ``weights`` (draws, samples), (draws, 3)."""
    draws = zip(*before.mean(weights), *after.mean(weights), strict=True)
    return np.array([_split((acc, turns), (acc_after, turns_after)) for acc, turns, acc_after, turns_after in draws])


def _split(before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> Split:
    (accuracy, turns), (accuracy_after, turns_after) = before, after
    own, own_after = accuracy[NEUTRAL_INDEX], accuracy_after[NEUTRAL_INDEX]
    along = _at(turns, accuracy, turns_after[NEUTRAL_INDEX])
    back = _at(turns_after, accuracy_after, turns[NEUTRAL_INDEX])
    more = ((along - own) + (own_after - back)) / 2
    return Split(own_after - own, more, own_after - own - more)


def _at(turns: Floats, accuracy: Floats, wanted: float) -> float:
    """Return the accuracy on a curve at a number of suggestions; NaN outside the curve."""
    if not turns[0] - 1e-12 <= wanted <= turns[-1] + 1e-12:
        return float("nan")
    return float(np.interp(wanted, turns, accuracy))


def split_intervals(
    scenarios: Sequence[tuple[Curve, Curve, Sequence[str]]], seed: int, draws: int = DRAWS
) -> tuple[list[tuple[Interval, ...]], tuple[Interval, ...], int]:
    """Return the split of each scenario and of the mean over those that have one, and their number.

    ``scenarios``: curves before and after over the same samples, and each sample's cluster. Intervals are of a paired
    bootstrap: a draw takes the same clusters of both.
    """
    points, sampled = [], []
    for number, (before, after, clusters) in enumerate(scenarios):
        size = len(before.accuracy)
        points.append(split(before, after, np.full(size, 1 / size)))
        sampled.append(split_draws(before, after, resampling_weights(clusters, draws, seed + number)))
    used = [number for number, point in enumerate(points) if not np.isnan(point.more)]
    sizes = [len(set(clusters)) for _, _, clusters in scenarios]
    each = [_intervals(point, drawn, [size]) for point, drawn, size in zip(points, sampled, sizes, strict=True)]
    if not used:
        return each, _intervals(Split(*[float("nan")] * 3), np.full((1, 3), np.nan), sizes), 0
    mean = Split(*np.mean([points[number] for number in used], axis=0))
    drawn_means = np.mean([sampled[number] for number in used], axis=0)
    return each, _intervals(mean, drawn_means, [sizes[number] for number in used]), len(used)


def resampling_weights(clusters: Sequence[str], draws: int, seed: int) -> Floats:
    """Return weights of samples in each bootstrap draw of whole clusters, (draws, samples); rows sum to 1."""
    names, indices = np.unique(np.asarray(clusters), return_inverse=True)
    generator = np.random.default_rng(Random(seed).getrandbits(64))
    counts = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws)
    weights = counts[:, indices].astype(np.float64)
    scaled: Floats = weights / weights.sum(axis=1, keepdims=True)
    return scaled


def interval(value: float, drawn: Floats, sizes: Sequence[int]) -> Interval:
    """Return a value with the interval of its draws; NaN if more than 5% of the draws have no value.

    ``sizes``: number of clusters in each scenario that the value averages.
    """
    if np.isnan(value) or np.isnan(drawn).mean() > 0.05:
        return Interval(value, float("nan"), float("nan"))
    tail = 100 * tail_share(sizes)
    low, high = np.nanpercentile(drawn, [tail, 100 - tail])
    return Interval(float(value), float(low), float(high))


def tail_share(sizes: Sequence[int]) -> float:
    """Return the share of draws beyond either end of a 95% interval: the expanded percentiles of T. Hesterberg (2015).

    Draws of n clusters have a variance that is too small by (n - 1) / n, and normal tails instead of Student's.
    """
    least = min(sizes)
    if least < 2:
        return 0.025
    freedom = sum(size - 1 for size in sizes)
    return float(ndtr(-((least / (least - 1)) ** 0.5) * stdtrit(freedom, 0.975)))


def _intervals(point: Split, drawn: Floats, sizes: Sequence[int]) -> tuple[Interval, ...]:
    return tuple(interval(value, column, sizes) for value, column in zip(point, drawn.T, strict=True))
