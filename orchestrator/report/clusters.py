"""Clusters of samples that are alike, and the effective size of a sample drawn in clusters.

Samples of one cluster that are answered alike say less than as many independent ones; never do they say more here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]

from envs.answers import as_text
from envs.types import Sample

Floats = NDArray[np.float64]
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
    n; times (z / t)^2, with Student's t in place of ``z`` (Korn and Graubard 1998, Survey Methodology 24:193-201). The
    variance is corrected, and the degrees of freedom of t counted, for clusters of unequal size that are alike within
    (Bell and McCaffrey 2002, Survey Methodology 28:169-181); the degrees are fewer where few clusters hold most of the
    variance, by the fourth moment of the clusters' sums (Pan and Wall 2002, Statistics in Medicine 21:1429-1441). Where all
    values agree nothing tells the two apart, and each cluster counts as one sample.
    """
    n, (_, place) = len(values), np.unique(groups, return_inverse=True)
    number = int(place.max()) + 1
    if number < 2:
        return 1.0
    away = values - values.mean()
    sums: Floats = np.bincount(place, away).astype(np.float64)
    sizes = np.bincount(place).astype(np.float64)
    between, within = float((sums**2).sum()), float((away**2).sum()) * n / (n - 1)
    if not within or not between:
        return max(1.0, (n if within else number) * (z / float(stdtrit(number - 1, LEVEL))) ** 2)
    alike = between * number / (number - 1) / within - 1
    seen, freedom = _of_residuals(sizes, float(np.clip(alike / max((sizes**2).sum() / n - 1, 1.0), 0, 1)))
    freedom = min(freedom, _of_fourth_moment(sums))
    return max(1.0, min(n, n * within * seen / between) * (z / float(stdtrit(freedom, LEVEL))) ** 2)


def _of_residuals(sizes: Floats, alike: float) -> tuple[float, float]:
    """The sum of squares of the clusters' sums that is expected, relative to one around the true mean; its degrees of freedom.

    ``sizes`` (clusters,); ``alike`` is the intraclass correlation. The covariance of the sums is that of the clusters, V,
    less what subtracting the mean takes: (I - u1') V (I - 1u'), with u each cluster's share of the samples.
    """
    own, share = sizes * (1 + (sizes - 1) * alike), sizes / sizes.sum()
    total, mixed, square = own.sum(), share @ own, share @ share
    trace = total - 2 * mixed + total * square
    squares = own @ own - 4 * (share @ own**2) + 2 * total * (own @ share**2)
    squares += 2 * square * (own @ own) + 2 * mixed**2 - 4 * total * mixed * square + total**2 * square**2
    return float(trace / total), float(trace**2 / squares)


def _of_fourth_moment(sums: Floats) -> float:
    """Degrees of freedom of the variance of ``sums`` (clusters,): twice the square over the variance of it."""
    kurtosis = len(sums) * float((sums**4).sum()) / float((sums**2).sum()) ** 2
    return max(1.0, 2 * len(sums) / (kurtosis - 1)) if kurtosis > 1 else float(len(sums) - 1)
