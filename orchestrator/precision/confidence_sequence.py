"""An interval for the accuracy on a finite set of samples, computed from the samples played so far and valid at every stop.

A betting confidence sequence (Waudby-Smith and Ramdas 2024, J. R. Stat. Soc. B 86:1-27, theorem 3: two capital processes,
each at half of alpha), on samples drawn without replacement (their section 5; Waudby-Smith and Ramdas 2020, NeurIPS), of an
unweighted average over strata. In a round each stratum draws one sample, unless it is exhausted. A round's value

    y_k = mean over strata of (1 - k / N) x_k + (sum of the stratum's k earlier values) / N

has, given all earlier rounds, the mean over strata of the full sets' means as its expectation. The values are bounded and
share one mean, so bets on it gain nothing on average: if bets depend on earlier rounds only, the capital ever reaches
2 / alpha with a probability of at most alpha / 2 (Ville 1939), and a mean for which it did is rejected. Nothing is assumed
about the distribution or the number of samples. Bets are target / (estimated conditional variance), which is optimal for an
interval of half-width ``target``; another target gives a wider interval that is still valid.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALPHA = 0.05
LARGEST_BET = 0.9
"""Maximum share of the capital that a bet can lose, so that it stays positive."""
PRIOR_SAMPLES, PRIOR_VARIANCE = 4.0, 0.25
"""Prior samples per stratum, with the variance of an accuracy of 50%, so that the first bets are small."""
HALVINGS = 40
"""Bisection steps per bound, for a precision of 1e-12."""


def interval(values: Floats, sizes: Integers, target: float, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the confidence sequence at 1 - ``alpha`` (95%) of the average over strata of the full sets' means.

    Args:
        values: (rounds, strata), in [0, 1], in the order drawn; rows beyond a stratum's size are not read.
        sizes: (strata,), samples of the full sets.
        target: the half-width, in the same unit, at which sampling is meant to stop.
    """
    rounds = np.arange(len(values))[:, None]
    played = np.where(rounds < sizes, values, 0.0)
    before = np.vstack([np.zeros(len(sizes)), np.cumsum(played, axis=0)])
    left = np.maximum(1 - rounds / sizes, 0.0)
    round_values = (left * played + before[:-1] / sizes).mean(axis=1)
    bets = _bets(played, before[:-1], np.minimum(rounds, sizes), left, target)
    low = float((before[-1] / sizes).mean())
    high = low + float(np.maximum(1 - len(values) / sizes, 0.0).mean())
    below, above = _bound(round_values, bets, low, high, alpha), -_bound(-round_values, bets, -high, -low, alpha)
    return min(below, above), max(below, above)  # they cross if every mean is rejected


def _bets(played: Floats, sums: Floats, counts: Integers, left: Floats, target: float) -> Floats:
    """Return the bet of each round (rounds,), from earlier rounds alone."""
    squares = np.vstack([np.zeros(played.shape[1]), np.cumsum(played**2, axis=0)[:-1]])
    spread = squares - sums**2 / np.maximum(counts, 1)
    variance = (PRIOR_SAMPLES * PRIOR_VARIANCE + spread) / (PRIOR_SAMPLES + counts)
    conditional = (left**2 * variance).mean(axis=1) / played.shape[1]
    widest = left.mean(axis=1)
    tiny = np.finfo(float).tiny
    bets = np.minimum(target / np.maximum(conditional, tiny), LARGEST_BET / np.maximum(widest, tiny))
    return np.where(widest > 0, bets, 0.0)


def _bound(round_values: Floats, bets: Floats, low: float, high: float, alpha: float) -> float:
    """Return the smallest mean in [low, high] that was never rejected, by bisection: the capital falls as the mean grows."""
    limit = np.log(2 / alpha)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_rejected = np.log1p(bets * (round_values - middle)).cumsum().max() >= limit
        low, high = (middle, high) if is_rejected else (low, middle)
    return low
