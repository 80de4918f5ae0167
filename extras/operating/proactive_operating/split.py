"""Splits the difference between two models at equal numbers of suggestions: asking more, and asking better.

Let A and A' be the curves of accuracy over suggestions N, and (n, a), (n', a') the models' own points on them. Moving along
the first curve from n to n' changes a to A(n') (asking more); the rest of the way to a' leads to the second curve (asking
better). The other way changes curves first, at n, and then moves along the second curve to n'. ``more`` and ``better`` are the
means of both ways, and ``more`` + ``better`` = a' - a. Curves are never extrapolated: if n' lies outside the first curve, or n
outside the second, the scenario has no split.
"""

from typing import NamedTuple

import numpy as np

from proactive_operating.policy import NEUTRAL_INDEX, Floats


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


def split(before: Curve, after: Curve, weights: Floats) -> Split:
    """Return the difference between two curves over the same samples, and its parts."""
    return _split(before.mean(weights), after.mean(weights))


def split_by_weights(before: Curve, after: Curve, weights: Floats) -> Floats:
    """Return the difference and its parts (rows, 3) under each row of ``weights`` (rows, samples)."""
    means = zip(*before.mean(weights), *after.mean(weights), strict=True)
    parts = [_split((acc, turns), (acc_after, turns_after)) for acc, turns, acc_after, turns_after in means]
    return np.array(parts, dtype=np.float64).reshape(len(weights), 3)


def _split(before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> Split:
    (accuracy, turns), (accuracy_after, turns_after) = before, after
    own, own_after = accuracy[NEUTRAL_INDEX], accuracy_after[NEUTRAL_INDEX]
    first_at_after = _at(turns, accuracy, turns_after[NEUTRAL_INDEX])
    second_at_before = _at(turns_after, accuracy_after, turns[NEUTRAL_INDEX])
    more = ((first_at_after - own) + (own_after - second_at_before)) / 2
    return Split(own_after - own, more, own_after - own - more)


def _at(turns: Floats, accuracy: Floats, wanted: float) -> float:
    """Return the accuracy on a curve at a number of suggestions; NaN outside the curve."""
    if not turns[0] - 1e-12 <= wanted <= turns[-1] + 1e-12:
        return float("nan")
    return float(np.interp(wanted, turns, accuracy))
