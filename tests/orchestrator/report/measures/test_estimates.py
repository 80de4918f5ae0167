"""Estimates agree with the scores, are the same in any order, and errors change none of them."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs import SCENARIOS
from orchestrator.report.measures import estimates
from orchestrator.report.measures.estimates import MEASURES, estimate, suggestion_limits
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.intervals import score_interval, stratum_from_values
from orchestrator.storage.schemas import EPISODES
from tests.orchestrator.blocks import episode


def replace_episodes(run_data: RunData, rows, planned=None) -> RunData:
    """Return RunData with these episodes only; each cell plans what it has unless ``planned`` is given."""
    frame = pl.DataFrame(rows, schema=EPISODES)
    counts = frame.group_by("model", "scenario", "condition", "protocol", "cell").agg(
        pl.len().cast(pl.Int64).alias("planned")
    )
    cells = (
        counts.sort("cell") if planned is None else counts.sort("cell").with_columns(pl.lit(planned).alias("planned"))
    )
    return dataclasses.replace(run_data, episodes=frame.sort("key"), planned=cells, samples={})


def test_measures_equal_scores_and_lie_in_their_intervals(run_data):
    cells = estimate(run_data).cells
    both = cells.join(run_data.rows, on="cell", suffix="_score")

    for name in (
        "acc_first",
        "ps",
        "loops",
        "share_suggestion",
        "share_abstention",
        "share_category",
        "share_unparsable",
    ):
        assert both[name].to_list() == pytest.approx(both[f"{name}_score"].to_list())
    for name in MEASURES:
        inside = (both[f"{name}_low"] <= both[name] + 1e-9) & (both[name] <= both[f"{name}_high"] + 1e-9)
        assert inside.all(), name


def test_average_is_unweighted_mean_with_stratified_interval(run_data):
    rows = [
        *(episode(n, "m/ROD/hint", turns=1 + n % 5, correct=n % 2 == 0) for n in range(40)),
        *(episode(n, "m/QD/hint", turns=1 + n % 3, correct=n % 4 == 0) for n in range(400)),
    ]
    longest = [episode(0, f"always/{scenario}/hint", turns=13) for scenario in ("ROD", "QD")]
    mean = estimate(replace_episodes(run_data, rows + longest)).averages.filter(model="m").row(0, named=True)
    strata = [stratum_from_values(np.array([n % k for n in range(size)]), 0, 12) for size, k in ((40, 5), (400, 3))]

    assert mean["acc"] == pytest.approx((50 + 25) / 2)
    assert mean["ps"] == pytest.approx((2 + 399 / 400) / 2)
    assert (mean["ps_low"], mean["ps_high"]) == pytest.approx(score_interval(strata))
    assert mean["mean_turns_high"] == pytest.approx(mean["ps_high"] + 1)
    assert (mean["scenarios"], mean["all_seven"]) == (2, False)


def test_bounds_do_not_depend_on_order_or_other_models(run_data):
    estimates = estimate(run_data)
    shuffled = dataclasses.replace(run_data, episodes=run_data.episodes.sample(fraction=1, shuffle=True, seed=3))
    alone = dataclasses.replace(run_data, planned=run_data.planned.filter(model="uniform"))

    assert estimate(shuffled).cells.equals(estimates.cells)
    assert estimate(shuffled).averages.equals(estimates.averages)
    assert estimate(alone).cells.equals(estimates.cells.filter(model="uniform"))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["unprocessable", "refused", "failed"]), min_size=1, max_size=6))
def test_errors_change_counts_and_no_measure(run_data, errors):
    answers = [
        episode(n, turns=1 + n % 4, correct=n % 3 == 0, ending="correct" if n % 3 == 0 else "wrong") for n in range(12)
    ]
    wrong = [episode(50 + n, ending=ending, correct=False, turns=0) for n, ending in enumerate(errors)]
    clean = estimate(replace_episodes(run_data, answers)).cells.row(0, named=True)
    dirty = estimate(replace_episodes(run_data, answers + wrong)).cells.row(0, named=True)
    counts = {"planned", "finished", "failed", "errors"}

    assert dirty["errors"] == len(errors)
    assert {k: v for k, v in dirty.items() if k not in counts} == {k: v for k, v in clean.items() if k not in counts}


def test_a_cell_without_answers_has_no_measure(run_data):
    rows = [episode(1, ending="failed", correct=False, turns=0)]
    estimates = estimate(replace_episodes(run_data, rows))

    assert estimates.cells.row(0, named=True)["ps"] is None
    assert estimates.averages.row(0, named=True)["acc"] is None


def test_no_interval_collapses_where_all_episodes_agree(run_data):
    estimates = estimate(run_data)
    played = estimates.cells.filter((pl.col("condition") != "reference") & (pl.col("scored") > 0))
    means = estimates.averages.filter(pl.col("condition") != "reference")

    for name in MEASURES:
        assert (played[f"{name}_low"] < played[f"{name}_high"]).all(), name
        assert (means[f"{name}_low"] < means[f"{name}_high"]).all(), name


def test_suggestion_limits_come_from_samples_or_longest_episode(run_data):
    exact = suggestion_limits(run_data)
    observed = suggestion_limits(dataclasses.replace(run_data, samples={}))
    limits = {
        scenario: max(SCENARIOS[scenario].limit(sample) for sample in samples.values()) - 1
        for scenario, samples in run_data.samples.items()
    }

    assert {scenario: limit for (scenario, condition), limit in exact.items() if condition == "hint"} == limits
    assert {limit for (_, condition), limit in exact.items() if condition == "reference"} == {0}
    longest = {cell: limit for cell, limit in exact.items() if cell[0] in ("QD", "MVP-N")}
    assert longest and all(observed[cell] == limit for cell, limit in longest.items()), "always-ask goes to the limit"


def test_every_scenario_counts_once(run_data):
    averages = estimate(run_data).averages.filter(condition="zero-shot")

    assert set(averages["scenarios"]) == {len(SCENARIOS)}
    assert averages["all_seven"].all()


def test_turns_are_suggestions_plus_one_and_bounds_of_a_stop_hold_the_value():
    assert estimates._flatten({"ps": (1.0, 0.5, 2.0)}) == {
        "ps": 1.0, "ps_low": 0.5, "ps_high": 2.0, "mean_turns": 2.0, "mean_turns_low": 1.5, "mean_turns_high": 3.0
    }  # fmt: skip
    both = {"acc": (50.0, 40.0, 60.0), "ps": (1.0, 0.5, 2.0)}
    assert estimates._replace_bounds(both, {"acc": (55.0, 70.0)}) == {**both, "acc": (50.0, 50.0, 70.0)}
    assert estimates._replace_bounds(both, {"acc": (10.0, 45.0)})["acc"] == (50.0, 10.0, 50.0)


def test_limits_of_suggestions_are_those_of_the_rules_or_else_of_the_longest_episode(run_data):
    rows = [
        episode(1, "m/QD/hint", turns=7), episode(2, "n/QD/hint", turns=5), episode(1, "m/QD/reference", turns=4),
        episode(1, "m/ROD/other", turns=1),
    ]  # fmt: skip
    run = replace_episodes(run_data, rows)
    by_rules = suggestion_limits(dataclasses.replace(run, samples=run_data.samples))
    longest = max(SCENARIOS["QD"].limit(sample) for sample in run_data.samples["QD"].values())

    assert suggestion_limits(run) == {
        ("QD", "hint"): 6, ("QD", "reference"): 0, ("ROD", "other"): 0
    }  # fmt: skip
    assert (by_rules["QD", "hint"], by_rules["QD", "reference"]) == (max(longest, 7) - 1, 0)
    assert by_rules["ROD", "other"] == 0, "the rules of an unknown condition are not known"


def test_shares_are_of_all_answers_of_a_cell():
    episodes = pl.DataFrame(
        {"suggestions": [1, 0, 2], "turns": [2, 1, 3], "cluster": [None, None, None]},
        schema_overrides={"cluster": pl.Int64},
    )
    value, low, high = estimates._estimate_share(episodes, "suggestions")

    assert value == 50.0 and 0 < low < 50 < high < 100
    assert estimates._estimate_share(episodes.with_columns(turns=0, suggestions=0), "suggestions") == (0.0, 0.0, 100.0)
