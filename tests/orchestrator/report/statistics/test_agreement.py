"""Agreement of a reader with the truth: textbook values, and intervals from those of sensitivity and specificity."""

from __future__ import annotations

from math import hypot

import pytest

from orchestrator.report.statistics.agreement import Confusion, IntervalEstimate, cohen_kappa, share_estimate
from orchestrator.report.statistics.proportion import cautious_interval


def test_kappa_is_that_of_the_textbook_example():
    """Two readers of 50 proposals (en.wikipedia.org/wiki/Cohen's_kappa): 20 and 15 equal, 5 and 10 unequal."""
    table = Confusion(hits=20, misses=5, false_alarms=10, rejections=15)

    assert table.sensitivity == IntervalEstimate(0.8, *cautious_interval(20, 25))
    assert table.specificity == IntervalEstimate(0.6, *cautious_interval(15, 25))
    assert table.kappa.value == pytest.approx(0.4)
    assert cohen_kappa(0.7, 0.5, 0.6) == pytest.approx(0.4)
    assert cohen_kappa(0.6, 0.7, 0.7) == pytest.approx((0.6 - 0.58) / 0.42)


def test_kappas_interval_adds_the_squares_of_both_distances():
    """With as many true yes as no, kappa is sensitivity + specificity - 1, so that distances add up by hand."""
    table = Confusion(hits=20, misses=5, false_alarms=10, rejections=15)
    (_, low_yes, high_yes), (_, low_no, high_no) = table.sensitivity, table.specificity

    assert table.kappa.low == pytest.approx(0.4 - hypot(0.8 - low_yes, 0.6 - low_no))
    assert table.kappa.high == pytest.approx(0.4 + hypot(high_yes - 0.8, high_no - 0.6))


def test_kappa_counts_how_often_the_truth_is_yes():
    table = Confusion(hits=9, misses=1, false_alarms=9, rejections=81)

    equal, yes, answered_yes = 0.9, 0.1, 0.18
    chance = yes * answered_yes + (1 - yes) * (1 - answered_yes)
    assert table.kappa.value == pytest.approx((equal - chance) / (1 - chance))
    assert table.kappa.low < table.kappa.value < table.kappa.high < 1


def test_a_guess_has_a_kappa_of_zero():
    guess = Confusion(5, 5, 5, 5).kappa

    assert guess.value == 0.0 and guess.low == pytest.approx(-guess.high) and -1 < guess.low < 0


def test_bounds_stay_within_minus_one_and_one():
    assert Confusion(40, 0, 0, 40).kappa.high == 1.0 and 0.8 < Confusion(40, 0, 0, 40).kappa.low < 1
    opposite = Confusion(0, 3, 3, 0).kappa
    assert opposite.value == opposite.low == -1.0 and opposite.high > -1.0


def test_without_a_case_there_is_no_figure():
    assert share_estimate(0, 0) is None and share_estimate(1, 4) == IntervalEstimate(0.25, *cautious_interval(1, 4))
    assert Confusion(0, 0, 2, 3).sensitivity is None and Confusion(0, 0, 2, 3).kappa is None
    assert Confusion(2, 3, 0, 0).specificity is None and Confusion(2, 3, 0, 0).kappa is None
    assert cohen_kappa(1.0, 1.0, 1.0) is None and cohen_kappa(1.0, 0.0, 0.0) is None
