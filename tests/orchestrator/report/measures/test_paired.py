"""Paired comparisons and their two families, by hand and against scipy."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_1samp

from envs.types import Ending
from orchestrator.report.measures.paired import (
    compare,
    comparisons,
    count_tests,
    is_significant,
    primary_condition,
    tally_pairs,
)
from orchestrator.report.statistics.clustered import holm, mcnemar
from orchestrator.report.tables.evidence import paired_table
from sweeps.sections import Evidence
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

NAMES = ["model", "scenario", "condition", "protocol"]


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (3, 0), (10, 4), (7, 7), (60, 31)])
def test_mcnemar_is_the_exact_binomial(gained, lost):
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert float(mcnemar(np.array(gained), np.array(lost))) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 30))
def test_holm_lies_between_p_and_bonferroni_and_keeps_the_order(p, more):
    values, family = np.array(p), len(p) + more
    adjusted = holm(values, family)
    assert (adjusted >= values - 1e-12).all() and (adjusted <= np.minimum(values * family, 1) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(values, kind="stable")]) >= -1e-12).all()


def pairs(*rows, cluster=None):
    """Return pairs of (right, right before, turns, turns before)."""
    columns = zip(*rows, strict=True)
    names = ("correct", "correct_other", "turns", "turns_other")
    frame = pl.DataFrame(dict(zip(names, map(list, columns), strict=True)))
    same = {"model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "looped": False}
    literals = [pl.lit(value).alias(name) for name, value in {**same, "looped_other": False}.items()]
    clusters = pl.Series("cluster", cluster or [None] * len(rows), pl.Int64)
    return frame.with_columns(*literals, clusters)


FOUR = ((True, False, 3, 1), (True, True, 2, 2), (False, True, 1, 4), (True, False, 5, 1))


def test_four_pairs_by_hand():
    row = compare(tally_pairs(pairs(*FOUR).lazy(), NAMES), NAMES)[0].row(0, named=True)
    t = ttest_1samp([2, 0, -3, 4], 0)
    assert (row["n"], row["gained"], row["lost"], row["acc"], row["acc_other"]) == (4, 2, 1, 75, 50)
    assert row["difference"] == 25 and row["ps_difference"] == 0.75 and row["loops_difference"] == 0
    assert row["p"] == 1.0, "two of three discordant pairs are no evidence"
    assert row["difference_low"] <= 0 <= row["difference_high"]
    assert row["ps_p"] >= t.pvalue and row["ps_low"] <= t.confidence_interval(0.95).low


def test_clusters_are_tested_by_their_sums_and_never_contradict_their_interval():
    rows = [(True, False, 2, 1)] * 12 + [(False, False, 1, 1)] * 12
    plain = compare(tally_pairs(pairs(*rows).lazy(), NAMES), NAMES)[0].row(0, named=True)
    frame = pairs(*rows, cluster=[0] * 6 + [1] * 6 + [2] * 12)
    clustered = compare(tally_pairs(frame.lazy(), NAMES), NAMES)[0].row(0, named=True)
    assert plain["p"] < 0.05 < clustered["p"]
    for row in (plain, clustered):
        assert (row["p"] < 0.05) == (row["difference_low"] > 0 or row["difference_high"] < 0)


def test_a_small_scenario_does_not_take_the_average_down():
    big = pairs(*[(True, False, 2, 1)] * 60, *[(False, False, 1, 1)] * 240)
    small = pairs(*[(True, True, 2, 2)] * 10).with_columns(scenario=pl.lit("ROD"))
    tallies = tally_pairs(pl.concat([big, small]).lazy(), NAMES)
    row = compare(tallies, NAMES)[1].row(0, named=True)
    assert row["difference"] == 10 and row["scenarios"] == 2 and row["p"] < 1e-6 and row["ps_p"] < 1e-6


# -- families ----------------------------------------------------------------------------------------------------------
def played(model, condition, right, n=60, scenario="QD"):
    endings = [Ending.CORRECT] * right + [Ending.WRONG] * (n - right)
    return [episode(k, f"{model}/{scenario}/{condition}", ending, turns=1) for k, ending in enumerate(endings)]


@pytest.fixture(scope="module")
def planted(run_data):
    """Two models: a hint that helps one of them much, history that helps nobody; one baseline."""
    rights = {
        ("a", "zero-shot"): 20, ("a", "hint"): 45, ("a", "history"): 20,
        ("b", "zero-shot"): 30, ("b", "hint"): 31, ("b", "history"): 30,
        ("uniform", "zero-shot"): 10, ("uniform", "hint"): 40,
    }  # fmt: skip
    rows = [row for (model, condition), right in rights.items() for row in played(model, condition, right)]
    return replace_episodes(run_data, rows)


def test_the_primary_endpoint_is_a_family_of_its_own(planted):
    averages = comparisons(planted).condition_averages
    hint = averages.filter(condition="hint", model="a").row(0, named=True)
    assert primary_condition(planted.sweep) == "hint" and hint["endpoint"] == "primary"
    assert hint["p_holm"] == pytest.approx(2 * hint["p"]), "two models have this endpoint"
    other = averages.filter(condition="history", model="a").row(0, named=True)
    assert other["endpoint"] == "exploratory" and other["p_holm"] == 1.0


def test_everything_else_is_one_exploratory_family(planted):
    """Of two models: four cells of changes, four averages, one pair in a cell and one on average, accuracy and suggestions."""
    assert count_tests(planted) == 2 * (4 + 4 + 1 + 1) - 2
    cells = comparisons(planted).conditions
    smallest = cells.filter(model="a", condition="hint").row(0, named=True)
    assert smallest["p_holm"] == pytest.approx(18 * smallest["p"])


def test_baselines_are_no_hypotheses(planted):
    rows = comparisons(planted).conditions.filter(model="uniform")
    assert rows.height == 1 and rows["p"].null_count() == rows["p_holm"].null_count() == 1
    assert "uniform" not in str(paired_table(planted).rows)


def test_the_sweep_declares_its_own_endpoint_and_margin(planted):
    sweep = planted.sweep.model_copy(update={"evidence": Evidence(primary="history", margin=30)})
    declared = comparisons(dataclasses.replace(planted, sweep=sweep))
    endpoints = dict(declared.condition_averages.select("condition", "endpoint").iter_rows())
    assert endpoints == {"hint": "exploratory", "history": "primary"}
    assert is_significant(declared.conditions.filter(model="b", condition="history")["equal_p_holm"][0])


def test_only_samples_with_both_partners_are_compared(run_data):
    rows = [*played("m", "zero-shot", 3, 5), *played("m", "hint", 5, 8)]
    rows[0] |= {"ending": str(Ending.REFUSED), "correct": False}
    assert comparisons(replace_episodes(run_data, rows)).conditions["n"].to_list() == [4]
