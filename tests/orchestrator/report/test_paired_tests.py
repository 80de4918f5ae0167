"""Comparisons are of the same samples: McNemar against scipy, Holm by hand, the bootstrap against brute force."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from orchestrator.report.paired_tests import against, between, detectable, holm, mcnemar
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.test_bootstrap import made


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_exact_binomial(gained, lost):
    p = mcnemar(np.array([gained]), np.array([lost]))[0]
    expected = binomtest(gained, gained + lost, 0.5).pvalue if gained + lost else 1.0

    assert p == pytest.approx(expected, abs=1e-12)


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([])).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_lies_between_p_and_bonferroni_and_keeps_the_order(p):
    raw = np.array(p)
    adjusted = holm(raw)

    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(1, raw * len(raw)) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()


@given(st.integers(20, 5_000), st.floats(0.05, 1))
def test_the_detectable_difference_needs_just_the_pairs_there_are(n, discordant):
    found = detectable(n, discordant)
    if found is None:
        return
    d = found / 100
    za, zb = norm.ppf(0.975), norm.ppf(0.8)
    needed = (za * np.sqrt(discordant) + zb * np.sqrt(discordant - d**2)) ** 2 / d**2

    assert needed == pytest.approx(n, rel=1e-6)


def test_more_pairs_find_less_and_none_find_nothing():
    assert detectable(100, 0.3) > detectable(1000, 0.3) > 0
    assert detectable(0, 0.3) is None
    assert detectable(100, 0.0) is None
    assert detectable(3, 0.1) is None, "three pairs cannot tell anything"


def test_the_detectable_difference_is_found_four_times_in_five():
    n, discordant = 400, 0.3
    d = detectable(n, discordant) / 100
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(n, [(discordant + d) / 2, (discordant - d) / 2, 1 - discordant], size=4_000)
    found = (mcnemar(drawn[:, 0], drawn[:, 1]) < 0.05).mean()

    assert found == pytest.approx(0.8, abs=0.04), "the exact test is a little careful"


def pair(number, hint_turns, plain_turns, hint_right, plain_right):
    return [
        episode(number, "m/QD/hint", turns=hint_turns, correct=hint_right),
        episode(number, "m/QD/zero-shot", turns=plain_turns, correct=plain_right),
    ]


def test_only_samples_with_both_partners_are_compared(run_data):
    rows = [row for n in range(40) for row in pair(n, 1 + n % 4, 1 + n % 2, n < 20, n < 8)]
    rows += [episode(99, "m/QD/hint"), *pair(100, 1, 1, True, True)]
    rows[-1] = {**rows[-1], "ending": "failed", "correct": False}
    row = against(made(run_data, rows), resamples=8_000).row(0, named=True)
    differences = np.array([n % 4 - n % 2 for n in range(40)])
    brute = np.random.default_rng(0).choice(differences, (8_000, 40)).mean(axis=1)

    assert (row["n"], row["gained"], row["lost"]) == (40, 12, 0)
    assert (row["acc"], row["acc_other"], row["difference"]) == (50, 20, 30)
    assert row["p"] == pytest.approx(binomtest(12, 12).pvalue)
    assert row["ps_difference"] == differences.mean()
    assert (row["ps_low"], row["ps_high"]) == pytest.approx(tuple(np.percentile(brute, [2.5, 97.5])), abs=0.06)


def test_models_are_compared_once_and_the_grid_is_corrected(run_data):
    found = between(run_data, resamples=200)

    assert found.height == 15 * 7
    assert (found["model"] < found["other"]).all()
    assert (found["p_holm"] >= found["p"]).all()
    assert found["p_holm"].to_list() == pytest.approx(holm(found["p"].to_numpy()).tolist())


def test_a_condition_that_changes_nothing_has_p_of_one(run_data):
    same = against(run_data, resamples=100).filter(pl.col("condition") == "hint")

    assert set(same["p"]) == {1.0}
    assert set(same["ps_difference"]) == {0.0}
    assert against(dataclasses.replace(run_data, episodes=run_data.episodes.clear())).is_empty()
