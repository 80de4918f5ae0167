"""Estimates of fixed inputs do not move unnoticed: each value was computed once, beside the peers of the neighboring tests."""

import numpy as np
import pytest

from orchestrator.report.statistics.agreement import Confusion
from orchestrator.report.statistics.intervals import stratum_from_counts
from orchestrator.report.statistics.judge_error import Labels, labels_to_halve, prediction_powered, rogan_gladen
from orchestrator.report.statistics.means import crossed_mean, skewed_mean_test
from orchestrator.report.statistics.reader_agreement import krippendorff_alpha, paired_kappa

CAREFUL = Labels(Confusion(18, 4, 9, 69), 250, 900)
CARELESS = Labels(Confusion(3, 2, 20, 25), 300, 600)
NEVER = Labels(Confusion(0, 0, 1, 60), 3, 500)
ALL_LABELLED = Labels(Confusion(60, 0, 0, 0), 10, 0)
FEW = Labels(Confusion(10, 3, 2, 1), 10, 40)


@pytest.mark.parametrize(
    ("strata", "shares", "estimate", "to_halve"),
    [
        ([CAREFUL], None, (0.22419932, 0.16540573, 0.296092), 507),
        ([CAREFUL, CARELESS], None, (0.16480823, 0.11551326, 0.22907578), 617),
        ([CAREFUL, CARELESS], (0.7, 0.3), (0.19084302, 0.14152506, 0.2519651), 666),
        ([NEVER], None, (0.0, 0.0, 0.13432152), 255),
        ([Labels(Confusion(0, 0, 0, 60), 0, 0)], None, (0.0, 0.0, 0.13294287), None),
        ([ALL_LABELLED, FEW], None, (0.89373499, 0.76107918, 0.96195668), None),
    ],
)
def test_estimates_from_a_judge_and_labels(strata, shares, estimate, to_halve):
    assert prediction_powered(strata, shares=shares) == pytest.approx(estimate, abs=1e-7)
    if strata[0].others:
        assert labels_to_halve(strata, shares) == to_halve


def test_rogan_gladen():
    estimate = rogan_gladen(200, 1000, Confusion(90, 10, 5, 95))

    assert estimate == pytest.approx((0.17647059, 0.11509243, 0.22648636), abs=1e-7)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((20, 5, 7, 68), (0.68831169, 0.49467139, 0.81817973)),
        ((0, 0, 3, 40), (0.0, -0.04009492, 0.63394684)),
        ((10, 0, 0, 10), (1.0, 0.67406847, 1.0)),
    ],
)
def test_kappa(counts, expected):
    assert paired_kappa(*counts) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {(2, 0): 20, (1, 1): 5, (0, 2): 70, (3, 0): 2, (2, 1): 4, (1, 0): 9},
            (0.78807872, 0.63891374, 0.89191503),
        ),
        ({(2, 0): 10, (0, 2): 10}, (1.0, 0.80583579, 1.0)),
    ],
)
def test_alpha(counts, expected):
    assert krippendorff_alpha(counts) == pytest.approx(expected, abs=1e-7)


def test_mean_of_equal_and_of_skewed_values():
    equal = stratum_from_counts(np.array([1]), np.array([40]), 0.0, 1.0)
    skewed = stratum_from_counts(np.array([0, 1, 5]), np.array([30, 15, 5]), 0.0, 5.0)

    assert skewed_mean_test([equal]) == pytest.approx((0.949432727, 1.0, 2.8188114e-33), abs=1e-7)
    assert skewed_mean_test([skewed]) == pytest.approx((0.451408277, 1.38231717, 1.18461303e-06), abs=1e-7)
    assert skewed_mean_test([equal, skewed]) == pytest.approx((0.72398912, 1.19001759, 1.78421476e-23), abs=1e-7)


def test_mean_of_a_crossed_table():
    effects = np.array(
        [
            [2.4, -0.9, 0.2, -0.2, 1.1, 1.0],
            [-0.2, 2.9, 0.3, 5.1, 3.2, 2.3],
            [4.3, 5.2, 2.9, 4.2, 6.2, 5.2],
            [1.2, 1.3, -0.4, 1.7, 1.9, 0.5],
        ]
    )
    noise = np.array([[0.4, 1.0, -2.5, 1.3, -0.7], [-1.4, 0.6, 1.0, -0.1, -0.8], [0.3, 0.2, 1.7, 1.0, 0.5]])
    mean, low, high, p, rows, columns, rest = crossed_mean(effects)

    assert (mean, low, high, p) == pytest.approx((2.14166667, -0.69536263, 4.97869596, 0.09844943), abs=1e-7)
    assert (rows, columns, rest) == pytest.approx((1.75377371, 0.51044643, 1.24034046), abs=1e-7)
    assert crossed_mean(noise) == pytest.approx(
        (0.16666667, -1.06776066, 1.40109399, 0.62003271, 0.0, 0.0, 1.23274761), abs=1e-7
    )
    assert crossed_mean(effects[:2]) is None and crossed_mean(effects[:, :2]) is None
    assert crossed_mean(effects[:3, :3]) is not None
