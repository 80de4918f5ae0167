"""The interval covers the whole set's mean at every look, is exact once all is played, and knows values that are missing."""

from itertools import pairwise

import numpy as np
import pytest

from orchestrator.precision.confidence_sequence import interval
from orchestrator.precision.stopping import bounds

SIZES = np.array([40, 90, 400, 700])


def drawn(rng, shares, sizes=SIZES):
    """Each stratum's whole set, in a random order."""
    return [rng.permutation(np.arange(n) < round(p * n)).astype(float) for p, n in zip(shares, sizes, strict=True)]


def table(strata, rounds):
    out = np.zeros((rounds, len(strata)))
    for column, values in enumerate(strata):
        out[: len(values), column] = values[:rounds]
    return out


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5, 0.5), (0.05, 0.9, 0.3, 0.02)])
def test_the_mean_of_the_whole_sets_is_in_every_interval_of_nearly_all_runs(shares):
    rng, left = np.random.default_rng(7), 0
    for _ in range(60):
        strata = drawn(rng, shares)
        true = float(np.mean([one.mean() for one in strata]))
        # the interval after all rounds is inside those after fewer: if it holds, all of them held
        low, high = interval(table(strata, 650), SIZES, 0.03)
        left += not low - 1e-9 <= true <= high + 1e-9
    assert left <= 3


def test_an_interval_lies_inside_every_earlier_one_and_ends_at_the_true_mean():
    strata = drawn(np.random.default_rng(1), (0.2, 0.6, 0.4, 0.1))
    found = [interval(table(strata, rounds), SIZES, 0.03) for rounds in (1, 10, 100, 400, 700)]

    assert found[0] == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))
    assert all(a[0] <= b[0] + 1e-9 and b[1] <= a[1] + 1e-9 for a, b in pairwise(found))
    assert found[-1] == (pytest.approx(np.mean([one.mean() for one in strata])),) * 2


def test_what_all_agree_on_is_not_certain_before_all_is_played():
    low, high = interval(np.zeros((100, 4)), SIZES, 0.02)

    assert low == 0 and 0.005 < high < 0.1
    assert interval(np.ones((100, 4)), SIZES, 0.02)[0] == pytest.approx(1 - high, abs=0.01)


def test_bets_look_at_the_past_alone():
    """Another last value moves bounds by what it says itself: what was bet on it is the same."""
    values = table(drawn(np.random.default_rng(3), (0.5, 0.5, 0.5, 0.5)), 30)
    more = values.copy()
    more[29] = 1 - values[29]

    from orchestrator.precision.confidence_sequence import _bets

    def bets(seen):
        rounds = np.arange(30)[:, None]
        sums = np.vstack([np.zeros(4), np.cumsum(seen, axis=0)[:-1]])
        return _bets(seen, sums, np.minimum(rounds, SIZES), np.maximum(1 - rounds / SIZES, 0.0), 0.02)

    assert bets(values).tolist() == bets(more).tolist()


def test_a_value_that_is_missing_is_the_worst_of_both_sides():
    strata = drawn(np.random.default_rng(5), (0.3, 0.5, 0.4, 0.2))
    lost = [one.copy() for one in strata]
    for one in lost:
        one[[3, 7]] = np.nan
    low, high = bounds(lost, SIZES.tolist(), 200, 0.03)

    assert low == bounds([np.nan_to_num(one, nan=0.0) for one in lost], SIZES.tolist(), 200, 0.03)[0]
    assert high == bounds([np.nan_to_num(one, nan=1.0) for one in lost], SIZES.tolist(), 200, 0.03)[1]
    whole = bounds(strata, SIZES.tolist(), 200, 0.03)
    assert low <= whole[0] and whole[1] <= high
