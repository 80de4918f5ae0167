"""Comparisons use the same samples: McNemar against scipy, Holm by hand, sign flips and power by counting."""

import dataclasses
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from orchestrator.report.measures.paired_tests import (
    ASKING_COLUMNS,
    _test_values,
    asking_columns,
    compare_conditions,
    compare_models,
    compare_pairs,
    is_significant,
    tally_pairs,
)
from orchestrator.report.statistics.exact_tests import detectable, holm, mcnemar, mcnemar_power, sign_flip
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


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


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=10))
def test_the_sign_flip_test_counts_all_signs(differences):
    steps, counts = np.unique(differences, return_counts=True)
    signs = np.array(list(itertools.product([-1, 1], repeat=len(differences))))
    brute = (np.abs(signs @ differences) >= abs(sum(differences))).mean()

    assert sign_flip(steps, counts) == pytest.approx(brute, abs=1e-9)


@pytest.mark.parametrize("n", [5, 10, 30, 100, 1000])
def test_sign_flip_test_has_its_size_and_power(n):
    """A tenth of the samples loop to turn 30 under either condition: the heaviest tail that occurs in play."""
    rng = np.random.default_rng(n)
    runs = 400 if n < 1000 else 60

    def rejection_rate(shift: float) -> float:
        rejections = 0
        for _ in range(runs):
            first, second = (rng.geometric(0.5, n) - 1 + 29 * (rng.random(n) < 0.1) for _ in range(2))
            steps, counts = np.unique(first + (rng.random(n) < shift) - second, return_counts=True)
            rejections += sign_flip(steps, counts) <= 0.05
        return rejections / runs

    assert rejection_rate(0.0) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    assert n < 1000 or rejection_rate(1.0) > 0.6


def test_a_difference_in_asking_survives_two_thousand_comparisons():
    steps, counts = np.array([1]), np.array([42])

    assert holm(np.array([sign_flip(steps, counts)]), family=2_000)[0] < 1e-8


def test_more_pairs_detect_smaller_differences():
    assert detectable(100, 0.3) > detectable(1000, 0.3) > 0
    assert detectable(0, 0.3) is None
    assert detectable(100, 0.0) is None
    assert detectable(3, 0.1) is None, "three pairs cannot tell anything"


@pytest.mark.parametrize(
    ("n", "discordant", "family"), [(400, 0.3, 1), (400, 0.3, 224), (88, 0.6, 40), (2591, 0.1, 1000)]
)
def test_detectable_difference_has_80_percent_power_in_family(n, discordant, family):
    d = detectable(n, discordant, 0.05 / family) / 100
    rng = np.random.default_rng(0)
    counts = rng.multinomial(n, [(discordant + d) / 2, (discordant - d) / 2, 1 - discordant], size=4_000)
    p = np.array([holm(np.array([p_value]), family)[0] for p_value in mcnemar(counts[:, 0], counts[:, 1])])

    assert (p <= 0.05).mean() == pytest.approx(0.8, abs=0.03)


@settings(max_examples=25)
@given(st.integers(5, 200), st.floats(0.1, 0.9), st.floats(0, 1), st.sampled_from([0.05, 0.001]))
def test_power_is_summed_over_all_discordant_pairs(n, discordant, part, alpha):
    difference = discordant * part
    pairs = np.arange(n + 1)
    share, total = (discordant + difference) / (2 * discordant), 0.0
    for m in pairs:
        gained = np.arange(m + 1)
        hit = mcnemar(gained, m - gained) <= alpha
        total += binom.pmf(m, n, discordant) * binom.pmf(gained, m, share)[hit].sum()

    assert mcnemar_power(n, discordant, difference, alpha) == pytest.approx(total, abs=1e-6)


def pair(number, hint_turns, plain_turns, hint_right, plain_right):
    return [
        episode(number, "m/QD/hint", turns=hint_turns, correct=hint_right),
        episode(number, "m/QD/zero-shot", turns=plain_turns, correct=plain_right),
    ]


def test_only_samples_with_both_partners_are_compared(run_data):
    rows = [row for n in range(40) for row in pair(n, 1 + n % 4, 1 + n % 2, n < 20, n < 8)]
    rows += [episode(99, "m/QD/hint"), *pair(100, 1, 1, True, True)]
    rows[-1] = {**rows[-1], "ending": "failed", "correct": False}
    row = compare_conditions(replace_episodes(run_data, rows)).row(0, named=True)
    differences = np.array([n % 4 - n % 2 for n in range(40)])
    half = 1.96 * differences.std() / np.sqrt(40)

    assert (row["n"], row["gained"], row["lost"]) == (40, 12, 0)
    assert (row["acc"], row["acc_other"], row["difference"]) == (50, 20, 30)
    assert row["p"] == pytest.approx(binomtest(12, 12).pvalue)
    assert row["ps_difference"] == differences.mean()
    interval = differences.mean() - half, differences.mean() + half
    assert (row["ps_low"], row["ps_high"]) == pytest.approx(interval, abs=0.12)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((18.1, 45.4), abs=0.3)


def test_model_pairs_are_compared_once_with_holm(run_data):
    comparisons = compare_models(run_data)

    assert comparisons.height == 15 * 7, "nothing but baselines is planned, so they are the family"
    assert (comparisons["model"] < comparisons["other"]).all()
    assert (comparisons["p_holm"] >= comparisons["p"]).all()
    assert comparisons["p_holm"].to_list() == pytest.approx(holm(comparisons["p"].to_numpy()).tolist())


def test_a_condition_that_changes_nothing_has_p_of_one(run_data):
    same = compare_conditions(run_data).filter(pl.col("condition") == "hint")

    assert set(same["p"]) == {1.0}
    assert set(same["ps_difference"]) == {0.0}
    assert compare_conditions(dataclasses.replace(run_data, episodes=run_data.episodes.clear())).is_empty()


def test_baselines_are_outside_the_correction(run_data):
    rows = [row for n in range(60) for row in pair(n, 3, 1, n < 30, n < 20)]
    baseline = [episode(n, f"oracle/QD/{c}", turns=1 + n % 3) for n in range(60) for c in ("hint", "zero-shot")]
    without, joint = (compare_conditions(replace_episodes(run_data, episodes)) for episodes in (rows, rows + baseline))
    model_rows = joint.filter(model="m")

    assert model_rows.equals(without)
    assert model_rows["p_holm"].item() == model_rows["p"].item() and model_rows["ps_p_holm"].item() < 1e-9
    assert joint.filter(model="oracle").select("p_holm", "ps_p_holm", "detectable").row(0) == (None, None, None)
    assert compare_models(replace_episodes(run_data, rows + baseline))["p_holm"].to_list() == [None]


def test_planned_comparisons_count_in_family(run_data):
    rows = [row for n in range(60) for row in pair(n, 3, 1, n < 30, n < 20)]
    subset = replace_episodes(run_data, rows)
    planned = pl.concat(
        [subset.planned, *(subset.planned.with_columns(scenario=pl.lit(name)) for name in ("ROD", "CIT"))]
    )
    comparison = compare_conditions(dataclasses.replace(subset, planned=planned)).row(0, named=True)

    assert comparison["p_holm"] == pytest.approx(3 * comparison["p"])


def test_four_pairs_by_hand():
    names = {"condition": "hint", "scenario": "QD", "protocol": "mcqa", "cluster": None}
    values = [
        # correct, correct_other, turns, turns_other, looped, looped_other
        (True, True, 3, 1, False, False), (True, False, 3, 1, True, False), (True, False, 2, 1, False, False),
        (False, True, 1, 1, False, False),
    ]  # fmt: skip
    columns = ("correct", "correct_other", "turns", "turns_other", "looped", "looped_other")
    pairs = pl.LazyFrame(
        [names | dict(zip(columns, row, strict=True)) for row in values], schema_overrides={"cluster": pl.Int64}
    )
    key = ["condition", "scenario", "protocol"]
    tallied = tally_pairs(pairs, key)
    family = tallied.select(key).unique()
    row = compare_pairs(tallied, key, family, {("QD", "hint"): 12, ("QD", "zero-shot"): 3}, tests=4).row(0, named=True)

    assert sorted(tallied.select("steps", "loops", "count").rows()) == [(0, 0, 1), (1, 0, 1), (2, 0, 1), (2, 1, 1)]
    assert [row[name] for name in ("n", "acc", "acc_other", "difference", "gained", "lost")] == [
        4,
        75.0,
        50.0,
        25.0,
        2,
        1,
    ]
    assert row["p"] == 1.0 and row["p_holm"] == 1.0 and row["ps_difference"] == 1.25 and row["loops_difference"] == 25.0
    assert row["detectable"] is None or row["detectable"] > 25.0
    assert row["difference_low"] < -25.0 and row["difference_high"] > 60.0
    outside = compare_pairs(tallied, key, family.clear(), {("QD", "hint"): 12}).row(0, named=True)
    assert (outside["p"], outside["p_holm"], outside["ps_p_holm"], outside["detectable"]) == (1.0, None, None, None)


def test_open_ended_pairs_have_no_suggestions():
    row = {"scenario": "QD", "protocol": "oeg", "correct": True, "correct_other": False, "cluster": None}
    steps = dict.fromkeys(("turns", "turns_other", "looped", "looped_other"), None)
    unknown = dict.fromkeys(("turns", "turns_other"), pl.Int64) | dict.fromkeys(("looped", "looped_other"), pl.Boolean)
    pairs = pl.LazyFrame([row | steps], schema_overrides={**unknown, "cluster": pl.Int64})
    tallied = tally_pairs(pairs, ["scenario", "protocol"])
    compared = compare_pairs(
        tallied, ["scenario", "protocol"], tallied.select("scenario", "protocol"), {("QD", "x"): 3}
    )

    assert compared.select(ASKING_COLUMNS).row(0) == (None,) * len(ASKING_COLUMNS) == asking_columns([])
    assert ASKING_COLUMNS == (
        "ps_difference", "ps_low", "ps_high", "ps_p", "loops_difference", "loops_low", "loops_high"
    )  # fmt: skip


def test_corrected_p_below_five_percent_is_significant():
    assert [is_significant(p) for p in (None, 0.05, 0.0499, 1.0)] == [False, False, True, False]


def test_sums_of_clusters_are_tested_and_not_their_pairs():
    values, counts, groups = np.array([1, -1, 1]), np.array([3, 1, 2]), np.array([0, 0, 1])

    assert [part.tolist() for part in _test_values(values, counts, groups)] == [[2], [2]]
    assert [part.tolist() for part in _test_values(values, counts, None)] == [[-1, 1], [1, 5]]


def test_p_of_clusters_flips_the_signs_of_their_sums():
    """Sums 3, 3 and -1: of eight signs, four sum to 5 or more; without clusters it is McNemar's p of 6 against 1."""
    rows = [(0, True)] * 3 + [(1, True)] * 3 + [(2, False)]
    names = {"scenario": "QD", "protocol": "oeg", "steps": None, "loops": None, "count": 1}
    pairs = pl.DataFrame(
        [{**names, "cluster": cluster, "correct": gained, "correct_other": not gained} for cluster, gained in rows],
        schema_overrides={"steps": pl.Int64, "loops": pl.Int64},
    )
    keys = ["scenario", "protocol"]
    clustered, single = (
        compare_pairs(frame, keys, pairs.select(keys).unique(), {("QD", "hint"): 3}).row(0, named=True)
        for frame in (pairs, pairs.with_columns(cluster=pl.lit(None, pl.Int64)))
    )

    assert (clustered["p"], single["p"]) == (0.5, pytest.approx(binomtest(6, 7).pvalue))
    assert (clustered["gained"], clustered["lost"]) == (single["gained"], single["lost"]) == (6, 1)
