"""How far fallible readers agree with each other: kappa of two, Krippendorff's alpha of any number."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.statistics.agreement import IntervalEstimate

SEED, DRAWS = 0, 10_000
"""Seed and number of posterior draws of an interval."""

Floats = NDArray[np.float64]


def paired_kappa(both_yes: int, first_only: int, second_only: int, both_no: int) -> IntervalEstimate | None:
    """Return Cohen's kappa of two fallible readers from the counts of answers; None where chance agreement is 1.

    The interval holds the middle 95% of the posterior under Jeffreys' prior for four shares (half a count each), so it is not
    empty where the readers never differ. It covers 93 to 98% of planted values (50 to 1,000 answers, 5 to 50% yes).
    """
    counts = np.array([both_yes, first_only, second_only, both_no], dtype=np.float64)
    total = counts.sum()
    value = _kappas(counts[None] / total)[0] if total else np.nan
    if np.isnan(value):
        return None
    draws = _kappas(np.random.default_rng(SEED).dirichlet(counts + 0.5, DRAWS))
    return IntervalEstimate(float(value), *_middle(draws, float(value)))


def _kappas(shares: Floats) -> Floats:
    """Return kappa for rows of shares (draws, 4); NaN where chance agreement is 1."""
    yes, other_yes = shares[:, 0] + shares[:, 1], shares[:, 0] + shares[:, 2]
    chance = yes * other_yes + (1 - yes) * (1 - other_yes)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(chance < 1, (shares[:, 0] + shares[:, 3] - chance) / (1 - chance), np.nan)


def krippendorff_alpha(counts: Mapping[tuple[int, int], int]) -> IntervalEstimate | None:
    """Return Krippendorff's alpha (2011) of any number of readers who say yes or no, also where some are missing.

    Args:
        counts: (readers who say yes, readers who say no) -> answers. Those with fewer than two readers do not count.

    Returns the value with an interval as ``paired_kappa``'s, which covers 93 to 98% of planted values (90% with 50
    answers, 10% of them yes); None where fewer than two readers read an answer, or all say the same.
    """
    patterns = dict.fromkeys(
        (yes, size - yes) for size in {sum(p) for p in counts if sum(p) > 1} for yes in range(size + 1)
    )
    cells = np.array([*patterns], dtype=np.float64).reshape(-1, 2)
    observed = np.array([counts.get(pattern, 0) for pattern in patterns], dtype=np.float64)
    value = _alphas(observed[None], cells)[0] if observed.any() else np.nan
    if np.isnan(value):
        return None
    shares = np.random.default_rng(SEED).dirichlet(observed + 1 / len(patterns), DRAWS)
    return IntervalEstimate(float(value), *_middle(_alphas(shares * observed.sum(), cells), float(value)))


def _alphas(weights: Floats, cells: Floats) -> Floats:
    """Return alpha for rows of weights (draws, patterns) of ``cells`` (patterns, yes and no); NaN where all say the same."""
    yes, no = cells.T
    unequal = weights @ (2 * yes * no / (yes + no - 1))
    all_yes, all_no = weights @ yes, weights @ no
    expected = 2 * all_yes * all_no / (all_yes + all_no - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected > 0, 1 - unequal / expected, np.nan)


def _middle(draws: Floats, value: float) -> tuple[float, float]:
    """Return the limits of the middle 95% of draws, widened to hold the value."""
    low, high = np.nanquantile(draws, (0.025, 0.975))
    return min(float(low), value), max(float(high), value)
