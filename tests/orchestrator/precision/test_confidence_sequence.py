"""The interval covers the full set's mean at every look, is exact once all is played, and allows for missing values."""

from itertools import pairwise

import numpy as np
import pytest

from orchestrator.precision.confidence_sequence import interval
from orchestrator.precision.stopping import bounds

SIZES = np.array([40, 90, 400, 700])


def draw_strata(rng, shares, sizes=SIZES):
    """Return each stratum's full set in random order."""
    return [rng.permutation(np.arange(n) < round(p * n)).astype(float) for p, n in zip(shares, sizes, strict=True)]


def table(strata, rounds):
    out = np.zeros((rounds, len(strata)))
    for column, values in enumerate(strata):
        out[: len(values), column] = values[:rounds]
    return out


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5, 0.5), (0.05, 0.9, 0.3, 0.02)])
def test_intervals_cover_true_mean_in_nearly_all_runs(shares):
    rng, misses = np.random.default_rng(7), 0
    for _ in range(60):
        strata = draw_strata(rng, shares)
        true = float(np.mean([stratum.mean() for stratum in strata]))
        # later intervals lie inside earlier ones, so if the last one covers the mean, all do
        low, high = interval(table(strata, 650), SIZES, 0.03)
        misses += not low - 1e-9 <= true <= high + 1e-9
    assert misses <= 3


def test_intervals_shrink_to_true_mean():
    strata = draw_strata(np.random.default_rng(1), (0.2, 0.6, 0.4, 0.1))
    intervals = [interval(table(strata, rounds), SIZES, 0.03) for rounds in (1, 10, 100, 400, 700)]

    assert intervals[0] == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))
    assert all(a[0] <= b[0] + 1e-9 and b[1] <= a[1] + 1e-9 for a, b in pairwise(intervals))
    assert intervals[-1] == (pytest.approx(np.mean([stratum.mean() for stratum in strata])),) * 2


def test_bets_depend_on_past_only():
    """Changing the last value leaves the bets on it unchanged."""
    values = table(draw_strata(np.random.default_rng(3), (0.5, 0.5, 0.5, 0.5)), 30)
    changed = values.copy()
    changed[29] = 1 - values[29]

    from orchestrator.precision.confidence_sequence import _bets

    def bets(observed):
        rounds = np.arange(30)[:, None]
        sums = np.vstack([np.zeros(4), np.cumsum(observed, axis=0)[:-1]])
        return _bets(observed, sums, np.minimum(rounds, SIZES), np.maximum(1 - rounds / SIZES, 0.0), 0.02)

    assert bets(values).tolist() == bets(changed).tolist()


def test_missing_value_widens_interval_on_both_sides():
    strata = draw_strata(np.random.default_rng(5), (0.3, 0.5, 0.4, 0.2))
    incomplete = [values.copy() for values in strata]
    for values in incomplete:
        values[[3, 7]] = np.nan
    low, high = bounds(incomplete, SIZES.tolist(), 200, 0.03)

    assert low == bounds([np.nan_to_num(values, nan=0.0) for values in incomplete], SIZES.tolist(), 200, 0.03)[0]
    assert high == bounds([np.nan_to_num(values, nan=1.0) for values in incomplete], SIZES.tolist(), 200, 0.03)[1]
    complete = bounds(strata, SIZES.tolist(), 200, 0.03)
    assert low <= complete[0] and complete[1] <= high
