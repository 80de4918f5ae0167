"""McNemar's exact test of paired differences, and Holm's correction."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr  # type: ignore[import-untyped]

from orchestrator.report.statistics.clustered import Floats

ALPHA = 0.05


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
