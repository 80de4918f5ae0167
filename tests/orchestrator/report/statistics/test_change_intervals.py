"""Intervals of a change of a share of answers hold the planted change."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.report.statistics.intervals import change_interval, correlation, ratio_interval

LIMIT, SWEEPS = 5, 400
"""Maximum turns of an episode; number of simulated sweeps of each kind."""


def episodes(asks, luck):
    """Return suggestions and turns of episodes that ask with chance ``asks`` at every turn; ``luck`` is uniform (n,)."""
    suggestions = np.minimum(np.log(luck) // np.log(asks), LIMIT - 1).astype(np.int64)
    return suggestions, suggestions + 1


def estimate(part, total):
    kinds, counts = np.unique(np.stack([part, total]), axis=1, return_counts=True)
    return part.sum() / total.sum(), *ratio_interval(*kinds, counts)


def share(asks):
    """Return the true share of suggestions, from the expected sums of an episode."""
    suggestions = sum(asks**turn for turn in range(1, LIMIT))
    return suggestions / (suggestions + 1)


@pytest.mark.parametrize("n", [10, 100, 500])
@pytest.mark.parametrize(
    ("before", "after", "same"), [(0.3, 0.3, 0.9), (0.3, 0.5, 0.5), (0.02, 0.02, 0), (0.05, 0.6, 0)]
)
def test_the_interval_holds_the_planted_change(n, before, after, same):
    rng, covered, widths = np.random.default_rng(n), 0, []
    for _ in range(SWEEPS):
        luck = rng.random(n)
        first, second = episodes(before, luck), episodes(after, np.where(rng.random(n) < same, luck, rng.random(n)))
        low, high = change_interval(estimate(*first), estimate(*second), correlation(first, second))
        covered += low <= share(after) - share(before) <= high
        widths.append(high - low)

    assert covered / SWEEPS >= 0.93
    assert min(widths) > 0, "no interval collapses"


def test_agreeing_pairs_narrow_the_interval():
    first = episodes(0.5, np.random.default_rng(0).random(200))
    alone = change_interval(estimate(*first), estimate(*first), 0)
    paired = change_interval(estimate(*first), estimate(*first), correlation(first, first))

    assert 0.9 < correlation(first, first) < 1
    assert 0 < paired[1] - paired[0] < (alone[1] - alone[0]) / 4
    assert paired[0] < 0 < paired[1]


def test_shares_without_variance_have_no_correlation():
    none = np.zeros(10, dtype=np.int64), np.ones(10, dtype=np.int64)
    assert correlation(none, none) == 0
