"""The least difference that McNemar's exact test finds, at the bounds of what it can find."""

import pytest

from orchestrator.report.statistics.exact_tests import detectable, mcnemar_power


@pytest.mark.parametrize(("n", "discordant"), [(12, 0.5), (40, 0.2), (300, 0.05)])
def test_the_power_of_agreement_is_the_most_that_is_found(n, discordant):
    most = mcnemar_power(n, discordant, discordant, 0.05)

    assert detectable(n, discordant, 0.05, most) == pytest.approx(100 * discordant, abs=0.01)
    assert detectable(n, discordant, 0.05, most + 1e-9) is None
    assert detectable(n, discordant, 0.05, 0.9 * most) < 99.9 * discordant


def test_the_power_at_the_least_difference_is_the_one_asked_for():
    least = detectable(200, 0.3, 0.01, 0.7)

    assert mcnemar_power(200, 0.3, least / 100, 0.01) == pytest.approx(0.7, abs=0.001)
    assert mcnemar_power(200, 0.3, least / 100, 0.01) >= 0.7


@pytest.mark.parametrize(("n", "discordant"), [(0, 0.5), (-1, 0.5), (100, 0.0), (100, 1.01), (5, 1.0)])
def test_nothing_is_found_without_pairs_or_with_a_share_that_is_none(n, discordant):
    assert detectable(n, discordant) is None, "p of five pairs is 0.06 at least"


def test_all_pairs_may_be_discordant():
    assert 0 < detectable(100, 1.0) < 100 and detectable(1, 1.0, alpha=1.0) is not None
