"""The effective size of a clustered sample, which is never more than its number of observations."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]

from orchestrator.report.statistics.proportion import Z

Floats = NDArray[np.float64]
LEVEL = 0.975
"""One-sided level of a two-sided 95% interval."""


def effective_size(values: NDArray[np.int64], groups: NDArray[np.int64]) -> float:
    """Return how many independent observations estimate the mean of ``values`` (n,) as precisely as these clusters do.

    ``groups`` (n,) holds the cluster of each value. The size is n over the design effect, the ratio of the variance between
    clusters to that of independent observations, but no more than n. It is multiplied by (Z / t)^2,
    which puts Student's t in place of the normal quantile (Korn and Graubard 1998, Survey Methodology 24:193-201). The
    variance is corrected, and the degrees of freedom of t counted, for clusters of unequal size that are alike within
    (Bell and McCaffrey 2002, Survey Methodology 28:169-181); the degrees are fewer where few clusters hold most of the
    variance, by the fourth moment of the clusters' sums (Pan and Wall 2002, Statistics in Medicine 21:1429-1441). Where all
    values are equal, each cluster counts as one observation.
    """
    n, (_, indices) = len(values), np.unique(groups, return_inverse=True)
    cluster_count = int(indices.max()) + 1
    if cluster_count < 2:
        return 1.0
    deviations = values - values.mean()
    sums: Floats = np.bincount(indices, deviations).astype(np.float64)
    sizes = np.bincount(indices).astype(np.float64)
    between, within = float((sums**2).sum()), float((deviations**2).sum()) * n / (n - 1)
    if not within or not between:
        return max(1.0, (n if within else cluster_count) * (Z / float(stdtrit(cluster_count - 1, LEVEL))) ** 2)
    correlation = between * cluster_count / (cluster_count - 1) / within - 1
    expected_ratio, freedom = residual_moments(
        sizes, float(np.clip(correlation / max((sizes**2).sum() / n - 1, 1.0), 0, 1))
    )
    freedom = min(freedom, fourth_moment_freedom(sums))
    return max(1.0, min(n, n * within * expected_ratio / between) * (Z / float(stdtrit(freedom, LEVEL))) ** 2)


def residual_moments(sizes: Floats, alike: float) -> tuple[float, float]:
    """Return the expected sum of squares of the clusters' sums, relative to one around the true mean, and its degrees of freedom.

    ``sizes`` (clusters,); ``alike`` is the intraclass correlation. The covariance of the sums is that of the clusters, V,
    minus what subtracting the mean removes: (I - u1') V (I - 1u'), with u each cluster's share of the samples.
    """
    own, share = sizes * (1 + (sizes - 1) * alike), sizes / sizes.sum()
    total, mixed, square = own.sum(), share @ own, share @ share
    trace = total - 2 * mixed + total * square
    squares = own @ own - 4 * (share @ own**2) + 2 * total * (own @ share**2)
    squares += 2 * square * (own @ own) + 2 * mixed**2 - 4 * total * mixed * square + total**2 * square**2
    return float(trace / total), float(trace**2 / squares)


def fourth_moment_freedom(sums: Floats) -> float:
    """Return the degrees of freedom of the variance of ``sums`` (clusters,): twice its square over its variance."""
    kurtosis = len(sums) * float((sums**4).sum()) / float((sums**2).sum()) ** 2
    return max(1.0, 2 * len(sums) / (kurtosis - 1)) if kurtosis > 1 else float(len(sums) - 1)
