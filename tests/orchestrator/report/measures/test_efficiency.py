"""Asking is measured against the oracle's own path; a budget can only take accuracy away."""

import dataclasses
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from envs import SCENARIOS
from envs.types import Action, Ending
from orchestrator.report.measures.efficiency import (
    LONGEST_BUDGET,
    _ranges,
    average_budget_curve,
    budget_curve,
    efficiency,
    guess_penalty,
    lift_over_chance,
    turns_needed,
)
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.exact_chance import guess_chance
from orchestrator.report.measures.model_size import model_sizes, size_correlation, spearman
from orchestrator.report.paper.published import published_table
from sweeps.registry import registry
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def test_oracle_is_fully_efficient_and_abstainer_not_at_all(run_data):
    rows = efficiency(run_data).filter(condition="zero-shot")
    oracle, silent = rows.filter(model="oracle"), rows.filter(model="abstain")

    assert set(oracle["efficiency"]) == {100.0}
    assert set(oracle["surplus"]) == {100.0}
    assert set(silent["efficiency"]) == {0.0}
    assert set(silent["surplus"]) == {0.0}


def test_turns_needed_agree_between_rules_and_oracle(run_data):
    from_oracle = turns_needed(run_data).filter(source="oracle").drop("source")
    others = dataclasses.replace(run_data, episodes=run_data.episodes.filter(pl.col("model") != "oracle"))
    from_rules = turns_needed(others).drop("source")
    both = from_oracle.join(from_rules, on=["mode", "scenario", "sample_id"], suffix="_rules")

    assert both.height == 2 * 70, "plain play and reference"
    assert both["needed"].equals(both["needed_rules"])


def test_efficiency_by_hand(run_data):
    rows = [
        episode(1, "oracle/QD/hint", turns=3),
        episode(2, "oracle/QD/hint", turns=1),
        episode(1, "m/QD/hint", turns=6),
        episode(2, "m/QD/hint", turns=2, correct=False, ending="wrong"),
        episode(3, "m/QD/hint", turns=9),
    ]
    row = efficiency(replace_episodes(run_data, rows)).filter(model="m").row(0, named=True)

    assert (row["scored"], row["measured"]) == (3, 2), "no oracle has played sample 3"
    assert row["efficiency"] == pytest.approx(100 * (3 / 6 + 0) / 2)
    assert (row["needed"], row["asked"], row["surplus"]) == (1.0, 3.0, 300.0)


def test_missing_oracle_and_data_give_reason_without_figure(run_data):
    row = efficiency(replace_episodes(run_data, [episode(1, "m/QD/hint")])).row(0, named=True)

    assert row["efficiency"] is None
    assert "oracle" in row["reason"]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=30))
def test_budget_curve_rises_to_accuracy(run_data, played):
    rows = [
        episode(n, "m/QD/hint", turns=turns, correct=right, ending="correct" if right else "wrong")
        for n, (turns, right) in enumerate(played)
    ]
    curve = budget_curve(replace_episodes(run_data, rows))
    expected = [100 * sum(right and turns - 1 <= k for turns, right in played) / len(played) for k in curve["budget"]]

    assert curve["acc"].to_list() == pytest.approx(expected)
    assert curve["acc"][-1] == pytest.approx(100 * sum(right for _, right in played) / len(played))


def test_a_budget_average_is_the_mean_of_scenarios(run_data):
    curves, mean = budget_curve(run_data), average_budget_curve(run_data)
    point = mean.filter(model="uniform", condition="zero-shot", budget=1).row(0, named=True)
    cells = curves.filter(model="uniform", condition="zero-shot", budget=1)

    assert point["scenarios"] == 7
    assert point["acc"] == pytest.approx(cells["acc"].mean())


def test_lift_is_over_exact_chance_or_else_baseline_run(run_data):
    rows = lift_over_chance(run_data)
    blind = dataclasses.replace(run_data, samples={})
    oracle = rows.filter(model="oracle", condition="zero-shot").sort("scenario")

    assert set(rows["chance_source"]) == {"exact"}
    assert oracle["lift"].to_list() == pytest.approx((100 - oracle["chance"]).to_list())
    accuracies = estimate(run_data).cells.filter(model="oracle", condition="zero-shot").sort("scenario")
    assert oracle["lift_low"].to_list() == pytest.approx((accuracies["acc_low"] - oracle["chance"]).to_list())
    assert (oracle["lift_low"] < oracle["lift"]).all() and (oracle["lift"] <= oracle["lift_high"]).all()
    assert set(oracle["of_possible"].round(6)) == {100.0}
    assert set(lift_over_chance(blind).filter(model="uniform")["lift"]) == {0.0}
    assert set(lift_over_chance(blind)["chance_source"]) == {"baseline"}
    assert lift_over_chance(blind)["lift_low"].null_count() == blind.planned.height, (
        "a baseline's accuracy is no constant"
    )
    nobody = dataclasses.replace(blind, planned=run_data.planned.filter(pl.col("model") != "uniform"))
    assert lift_over_chance(nobody)["lift"].null_count() == nobody.planned.height


def test_oracle_gains_all_and_wrong_guess_costs(run_data):
    rows = efficiency(run_data).filter(condition="zero-shot")

    assert rows.filter(model="oracle")["efficiency_above_chance"].to_list() == pytest.approx([100.0] * 7)
    assert (rows["efficiency_above_chance"] <= rows["efficiency"] + 1e-9).all()
    without = efficiency(dataclasses.replace(run_data, samples={}))
    assert without["efficiency_above_chance"].null_count() == without.height


@pytest.mark.parametrize("asks", [True, False])
def test_blind_play_is_worth_nothing_in_expectation(run_data, asks):
    """The credits of all endings of blind play, weighted by their chances, sum to 0."""
    for scenario, samples in run_data.samples.items():
        for sample in samples.values():
            assert expected_credit(sample, asks) == pytest.approx(0, abs=1e-12), scenario


def expected_credit(sample, asks):
    game, total = SCENARIOS[sample.scenario], 0.0
    needed = 3
    states = {game.initial(sample): 1.0}
    while states:
        after = defaultdict(float)
        for state, weight in states.items():
            chance = guess_chance(sample, state)
            possible = (*(game.offered(sample, state) if asks else ()), *sample.categories)
            for reply in possible:
                reached, turn = game.step(sample, state, reply)
                path = needed / max(needed, reached.turn)
                if reached.ending is None:
                    after[reached._replace(last=None)] += weight / len(possible)
                elif turn.action is Action.CATEGORY:
                    right = reached.ending is Ending.CORRECT
                    total += weight / len(possible) * path * (1 if right else -chance / (1 - chance))
        states = after
    return total


def test_size_correlation_on_published_figures():
    """Compare the correlation over the published table with scipy's."""
    sizes = {model.paper: model.parameters for model in registry().values() if model.paper and model.parameters}
    rows = published_table("mcqa").filter(pl.col("model").is_in(list(sizes)))
    x, y = np.array([sizes[name] for name in rows["model"]]), rows["avg psr"].to_numpy()
    rho, p, reason = spearman(x, y)

    assert (reason, len(x)) == (None, 19)
    assert rho == pytest.approx(spearmanr(x, y).statistic)
    assert p == pytest.approx(spearmanr(x, y).pvalue, abs=0.02)
    assert rho < 0, "larger models ask less"


def test_few_models_have_an_exact_p():
    """Of the 24 orders of four models, two are as extreme as a perfect one."""
    rho, p, _ = spearman(np.array([1.0, 2.0, 7.0, 70.0]), np.array([9.0, 5.0, 2.0, 0.1]))

    assert rho == pytest.approx(-1)
    assert p == pytest.approx(2 / 24)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=5, max_size=15))
def test_rho_with_ties_matches_scipy(pairs):
    x, y = np.array([float(a) for a, _ in pairs]), np.array([float(b) for _, b in pairs])
    rho, _, reason = spearman(x, y)

    assert reason or rho == pytest.approx(spearmanr(x, y).statistic)


def test_too_few_or_equal_models_have_a_reason(run_data):
    assert (
        spearman(np.array([1.0, 2.0]), np.array([1.0, 2.0]))[2]
        == "2 models of published size; a correlation needs three"
    )
    assert spearman(np.array([1.0, 2.0, 3.0]), np.zeros(3))[2] == "all values are equal"
    assert model_sizes(run_data).is_empty()
    assert size_correlation(run_data).is_empty()


def test_an_episode_may_be_worth_less_than_nothing(run_data):
    """A guess between two categories costs as much as a right answer earns, and one of nine in ten much more."""
    run = replace_episodes(run_data, [episode(1, "m/QD/hint", turns=7), episode(2, "m/ROD/hint", turns=3)])
    ranges = {"asked": (0.0, 6), "efficiency": (0.0, 100.0)}

    for worth, least in (([None], -100.0), ([50.0, -99.0], -100.0), ([None, -900.0, 100.0], -900.0)):
        episodes = pl.DataFrame({"efficiency_above_chance": worth}, schema={"efficiency_above_chance": pl.Float64})
        assert _ranges(run, episodes) == {**ranges, "efficiency_above_chance": (least, 100.0)}
    nothing = replace_episodes(run_data, [])
    assert _ranges(nothing, episodes.clear())["asked"] == (0.0, 0)


def test_a_wrong_guess_costs_what_guessing_earns_at_that_view(run_data):
    rows = guess_penalty(run_data).join(run_data.episodes, on="key").filter(model="guess")
    clear = rows.filter(condition="reference")
    sizes = [
        len(run_data.samples[scenario][number].categories)
        for scenario, number in clear.select("scenario", "sample_id").iter_rows()
    ]

    assert clear["penalty"].to_list() == pytest.approx([1 / (size - 1) for size in sizes])
    assert set(rows.filter(scenario="ROD", condition="zero-shot")["penalty"]) == {0.0}, "no guess counts there"
    assert set(rows["ending"]) == {"wrong"}
    blind = guess_penalty(dataclasses.replace(run_data, samples={})).join(run_data.episodes, on="key")
    assert blind.filter(model="guess")["penalty"].null_count() == rows.height


def test_a_budget_curve_by_hand(run_data):
    rows = [
        episode(1, "m/QD/hint", turns=1), episode(2, "m/QD/hint", turns=3),
        episode(3, "m/QD/hint", turns=2, correct=False, ending="wrong"), episode(4, "m/QD/hint", turns=9, ending="limit"),
    ]  # fmt: skip
    rows.append(episode(5, "unscored/QD/hint", ending="failed"))
    curve = budget_curve(replace_episodes(run_data, [{**row, "correct": row["ending"] == "correct"} for row in rows]))
    names = ("m/QD/hint", "m", "QD", "hint", "mcqa")

    assert curve.drop("acc_low", "acc_high").rows() == [
        (*names, 4, 0, 25.0), (*names, 4, 1, 25.0), (*names, 4, 2, 50.0)
    ]  # fmt: skip
    wrong = budget_curve(replace_episodes(run_data, [episode(1, "m/QD/hint", ending="wrong", correct=False)]))
    assert wrong.select("budget", "acc").rows() == [(0, 0.0)]
    long = budget_curve(replace_episodes(run_data, [episode(1, "m/QD/hint", turns=999)]))
    assert long["budget"].to_list() == list(range(LONGEST_BUDGET + 1)) and set(long["acc"]) == {0.0}


def test_p_of_many_models_is_a_share_of_ten_thousand_orders():
    sizes, values = np.arange(12.0), np.array([3.0, 1, 2, 6, 4, 5, 9, 7, 8, 0, 11, 10])
    rho, p, reason = spearman(sizes, values)

    assert (rho, reason) == (pytest.approx(spearmanr(sizes, values).statistic), None)
    assert p == spearman(sizes, values)[1] and 10_000 * p == pytest.approx(round(10_000 * p), abs=1e-6)
    assert p == 0.0432, "equal runs have equal orders; by the t distribution it is 0.033"
    assert spearman(sizes, 0 * values) == spearman(0 * sizes, values) == (None, None, "all values are equal")
    assert spearman(sizes[:1], values[:1])[2] == "1 model of published size; a correlation needs three"
    assert spearman(sizes[:3], values[:3])[2] is None
