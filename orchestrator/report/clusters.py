"""Clusters of samples that are alike, and the effective size of a sample drawn in clusters.

Samples of one cluster that are answered alike say less than as many independent ones; never do they say more here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t  # type: ignore[import-untyped]

from envs.answers import as_text
from envs.types import Sample

CLUSTERS: dict[str, tuple[Callable[[Sample], str], str]] = {
    "object": (lambda sample: as_text(sample.answer), "samples of one scenario with the same right answer"),
    "picture": (lambda sample: sample.image, "samples of one scenario cut from the same picture or video"),
}
"""Name of a way to cluster -> what samples of one cluster share, and the same in words."""
LEVEL = 0.975
"""One-sided, of two-sided 95% intervals."""


def effective_size(values: NDArray[np.int64], groups: NDArray[np.int64], z: float) -> float:
    """Independent samples that tell the mean of ``values`` (n,) as well; ``groups`` (n,) holds each one's cluster.

    n over the design effect, the ratio of the variance between clusters to that of independent samples, but no more than
    n; times (z / t)^2, with t of clusters - 1 degrees of freedom in place of ``z`` (Korn and Graubard 1998, Survey
    Methodology 24:193-201). Where all values agree nothing tells the two apart, and each cluster counts as one sample.
    """
    n, (_, place) = len(values), np.unique(groups, return_inverse=True)
    number = int(place.max()) + 1
    if number < 2:
        return 1.0
    away = values - values.mean()
    between = float((np.bincount(place, away) ** 2).sum()) * number / (number - 1)
    within = float((away**2).sum()) * n / (n - 1)
    size = min(n, n * within / between) if within and between else float(n if within else number)
    return max(1.0, size * (z / float(t.ppf(LEVEL, number - 1))) ** 2)
