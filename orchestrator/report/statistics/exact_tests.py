"""McNemar's exact test of paired differences, its power, and Holm's correction."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr  # type: ignore[import-untyped]

from orchestrator.report.statistics.clustered import Floats

ALPHA, POWER = 0.05, 0.8
DETECTABLE_DIGITS = 1e-4
"""Precision of the detectable difference, as a share."""


def mcnemar(gained: NDArray[np.int64], lost: NDArray[np.int64]) -> Floats:
    """Return the exact two-sided p of equal chances for gained and lost pairs (McNemar 1947); 1 without discordant pairs."""
    return np.asarray(np.minimum(1.0, 2 * bdtr(np.minimum(gained, lost), gained + lost, 0.5)), dtype=np.float64)


def holm(p: Floats, family: int = 0) -> Floats:
    """Return Holm's step-down adjusted p (1979), which keep the chance of any false finding in the family below alpha.

    ``family`` is the number of declared comparisons, including those without data; by default the length of ``p``.
    """
    order = np.argsort(p, kind="stable")
    remaining = np.arange(max(family, len(p)), 0, -1)[: len(p)]
    stepped = np.maximum.accumulate(p[order] * remaining)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def detectable(n: int, discordant: float, alpha: float = ALPHA) -> float | None:
    """Return the smallest true difference (points) that McNemar's exact test detects in 80% of cases among ``n`` pairs.

    ``discordant`` is the share of discordant pairs, ``alpha`` the level that p must not exceed: for one comparison of a
    family, alpha divided by the family. None if it does not even detect that all discordant pairs go one way.
    """
    if mcnemar_power(n, discordant, discordant, alpha) < POWER:
        return None
    low, high = 0.0, discordant
    while high - low > DETECTABLE_DIGITS:
        middle = (low + high) / 2
        low, high = (low, middle) if mcnemar_power(n, discordant, middle, alpha) >= POWER else (middle, high)
    return 100 * high


def mcnemar_power(n: int, discordant: float, difference: float, alpha: float) -> float:
    """Return the chance that the exact test of ``n`` pairs has p <= ``alpha``.

    ``discordant`` is the true share of discordant pairs, ``difference`` the true difference, as a share. It is the exact sum
    over the binomial number of discordant pairs (approximated in Connor 1987, Biometrics 43:207-211).
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # imports for a second; the table of `run` needs no power

    spread = 6 * np.sqrt(n * discordant * (1 - discordant)) + 1
    pairs = np.arange(max(0, int(n * discordant - spread)), min(n, int(n * discordant + spread)) + 1)
    critical = binom.ppf(alpha / 2, pairs, 0.5)  # the largest significant count of the rarer kind
    critical = np.where(binom.cdf(critical, pairs, 0.5) > alpha / 2, critical - 1, critical)
    share = (discordant + difference) / (2 * discordant)
    rejected = binom.sf(pairs - critical - 1, pairs, share) + binom.cdf(critical, pairs, share)
    return float((binom.pmf(pairs, n, discordant) * rejected).sum())
