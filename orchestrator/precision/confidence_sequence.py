"""An interval for the accuracy on a finite set of samples, computed from the samples played so far and valid at every stop.

It is a betting confidence sequence (Waudby-Smith and Ramdas 2024, J. R. Stat. Soc. B 86:1-27, theorem 3: two capital processes,
each at half of alpha) for samples drawn without replacement (their section 5; Waudby-Smith and Ramdas 2020, NeurIPS). It
covers the unweighted average over strata. Each round draws one sample of every stratum that is not exhausted. Given all earlier
rounds, the expectation of a round's value

    y_k = mean over strata of (1 - k / N) x_k + (sum of the stratum's k earlier values) / N

is the mean over strata of the full sets' means. So a gambler who bets on this mean gains nothing on average: if each bet depends
only on earlier rounds, the capital ever reaches 2 / alpha with a probability of at most alpha / 2 (Ville 1939). A candidate mean
for which the capital has reached it is rejected. Nothing is assumed about the distribution or the number of samples. A bet is
target / (estimated conditional variance), which is optimal for an interval of half-width ``target``; with another target the
interval is wider, but still valid.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ALPHA = 0.05
LARGEST_BET = 0.9
"""Maximum share of the capital that a bet can lose; below 1, so that the capital stays positive."""
PRIOR_SAMPLES, PRIOR_VARIANCE = 4.0, 0.25
"""Prior samples per stratum, with the variance of an accuracy of 50%, so that the first bets are small."""
HALVINGS = 40
"""Number of bisection steps per bound; 40 give a precision of 1e-12."""


def interval(values: Floats, sizes: Integers, target: float, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the interval, at confidence 1 - ``alpha``, for the average over strata of the full sets' means.

    Args:
        values: (rounds, strata), each in [0, 1], in the order drawn; rows beyond a stratum's size are not read.
        sizes: (strata,), the number of samples in each full set.
        target: the half-width, in the unit of the values, at which sampling will probably stop.
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
    return min(below, above), max(below, above)  # the bounds cross if every mean is rejected


def _bets(played: Floats, sums: Floats, counts: Integers, left: Floats, target: float) -> Floats:
    """Return the bet of each round, (rounds,); it depends only on earlier rounds."""
    squares = np.vstack([np.zeros(played.shape[1]), np.cumsum(played**2, axis=0)[:-1]])
    spread = squares - sums**2 / np.maximum(counts, 1)
    variance = (PRIOR_SAMPLES * PRIOR_VARIANCE + spread) / (PRIOR_SAMPLES + counts)
    conditional = (left**2 * variance).mean(axis=1) / played.shape[1]
    widest = left.mean(axis=1)
    tiny = np.finfo(float).tiny
    bets = np.minimum(target / np.maximum(conditional, tiny), LARGEST_BET / np.maximum(widest, tiny))
    return np.where(widest > 0, bets, 0.0)


def _bound(round_values: Floats, bets: Floats, low: float, high: float, alpha: float) -> float:
    """Return the smallest mean in [low, high] that was never rejected.

    Bisection finds it, because the capital is smaller for a larger mean.
    """
    limit = np.log(2 / alpha)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_rejected = np.log1p(bets * (round_values - middle)).cumsum().max() >= limit
        low, high = (middle, high) if is_rejected else (low, middle)
    return low
