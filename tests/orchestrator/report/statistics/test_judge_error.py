"""A judge's errors are corrected: estimates equal those of ppi-python, and too few labels correct nothing."""

import numpy as np
import pytest

from orchestrator.report.statistics.judge_error import (
    FEWEST_LABELS,
    Confusion,
    Labels,
    prediction_powered,
    rogan_gladen,
)

PPI_PYTHON = [
    ((18, 4, 9, 69), 250, 900, (0.22421107, 0.16060405, 0.28781809)),
    ((3, 2, 20, 25), 300, 600, (0.10206459, 0.01924733, 0.18488185)),
    ((100, 10, 15, 75), 900, 2000, (0.46601375, 0.41759169, 0.51443581)),
]
"""Of ppi-python 0.2.3: hits, misses, false alarms, rejections; yes of other answers; its tuned estimate with ``ppi_mean_ci``."""


@pytest.mark.parametrize(("counts", "yes", "others", "tuned"), PPI_PYTHON)
def test_estimates_are_those_of_ppi_python(counts, yes, others, tuned):
    labels = [Labels(Confusion(*counts), yes, others)]
    estimate = prediction_powered(labels)

    assert estimate.value == pytest.approx(tuned[0], abs=3e-3), "the second counts the labels alone, which are narrower"
    # a proportion's interval instead of a symmetric one, from a variance with imagined labels
    assert estimate.high - estimate.low == pytest.approx(tuned[2] - tuned[1], rel=0.2)


def test_rogan_gladen_by_hand():
    judge = Confusion(90, 10, 5, 95)

    # (0.2 + 0.95 - 1) / (0.9 + 0.95 - 1)
    assert rogan_gladen(20, 100, judge).value == pytest.approx(0.15 / 0.85)
    assert rogan_gladen(0, 100, judge).value == 0 and rogan_gladen(100, 100, judge).value == 1
    assert rogan_gladen(20, 100, Confusion(50, 50, 50, 50)) is None, "a judge that tosses a coin"
    assert rogan_gladen(20, 100, Confusion(0, 0, 5, 95)) is None and rogan_gladen(0, 0, judge) is None


@pytest.mark.parametrize(("share", "sensitivity", "specificity"), [(0.3, 0.9, 0.95), (0.6, 0.75, 0.8), (0.5, 0.8, 0.7)])
def test_the_interval_of_rogan_gladen_is_as_wide_as_its_estimates_vary(share, sensitivity, specificity):
    rng, estimates = np.random.default_rng(5), []
    for _ in range(500):
        hits, rejections = rng.binomial(200, sensitivity), rng.binomial(150, specificity)
        counted = rng.binomial(400, share * sensitivity + (1 - share) * (1 - specificity))
        judge = Confusion(hits, 200 - hits, 150 - rejections, rejections)
        estimates.append(rogan_gladen(counted, 400, judge))
    values, lows, highs = np.transpose(estimates)

    assert np.mean(highs - lows) == pytest.approx(2 * 1.96 * values.std(), rel=0.1)
    assert np.mean((lows <= share) & (share <= highs)) > 0.93


def test_too_few_labels_correct_nothing():
    assert prediction_powered([Labels(Confusion(5, 1, 1, FEWEST_LABELS - 8), 10, 90)]) is None
    assert prediction_powered([Labels(Confusion(10, 1, 1, 20), 10, 90), Labels(Confusion(1, 0, 0, 0), 10, 90)]) is None


def test_a_small_stratum_is_enough_if_all_of_it_is_labelled():
    rest = Labels(Confusion(10, 1, 1, 20), 10, 90)
    assert prediction_powered([Labels(Confusion(1, 0, 0, 0), 0, 0), rest], shares=[0.01, 0.99]) is not None
    assert prediction_powered([Labels(Confusion(1, 0, 0, 0), 0, 1), rest], shares=[0.01, 0.99]) is None
