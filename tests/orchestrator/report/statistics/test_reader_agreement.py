"""Agreement of fallible readers with each other: values of the textbook and of a package, and intervals."""

from __future__ import annotations

from collections import Counter

import krippendorff
import numpy as np
import pytest

from orchestrator.report.statistics.reader_agreement import krippendorff_alpha, paired_kappa


def test_kappa_of_two_fallible_readers_has_an_interval_that_never_is_empty():
    kappa = paired_kappa(20, 5, 10, 15)
    assert kappa.value == pytest.approx(0.4) and 0.1 < kappa.low < 0.2 < 0.55 < kappa.high < 0.7
    assert paired_kappa(20, 10, 5, 15) == pytest.approx(kappa, abs=0.02), "the order of the readers does not count"

    perfect = paired_kappa(10, 0, 0, 30)
    assert perfect.value == perfect.high == 1.0 and 0.7 < perfect.low < 1.0
    assert paired_kappa(9, 0, 0, 0) is None and paired_kappa(0, 0, 0, 0) is None


def test_alpha_equals_the_package_also_with_missing_verdicts():
    """The package krippendorff computes the value; it has no interval."""
    rng = np.random.default_rng(0)
    for readers in (2, 3, 5):
        verdicts = (rng.random((readers, 60)) < rng.random(60)).astype(float)
        verdicts[rng.random(verdicts.shape) < 0.3] = np.nan
        yes, no = (np.nansum(verdicts == side, axis=0) for side in (1, 0))
        alpha = krippendorff_alpha(Counter(zip(yes.tolist(), no.tolist(), strict=True)))

        expected = krippendorff.alpha(reliability_data=verdicts, level_of_measurement="nominal")
        assert alpha.value == pytest.approx(expected, abs=1e-12)
        assert alpha.low < alpha.value < alpha.high
    assert krippendorff_alpha({(3, 0): 9}) is None and krippendorff_alpha({(1, 0): 9}) is None
