"""Estimates agree with the scores, are the same in any order, and errors change none of them."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.types import Ending
from orchestrator.report.measures.estimates import MEASURES, estimate
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import ANSWERS, IF_ASKED
from orchestrator.report.scores.metrics import PLANNED_COLUMNS
from orchestrator.storage.schemas import EPISODES
from tests.orchestrator.blocks import episode


def replace_episodes(run_data: RunData, rows, planned=None) -> RunData:
    """Return RunData with these episodes only; each cell plans what it has unless ``planned`` is given."""
    frame = pl.DataFrame(rows, schema=EPISODES)
    size = pl.len() if planned is None else pl.lit(planned)
    cells = frame.group_by(PLANNED_COLUMNS[:-1]).agg(planned=size.cast(pl.Int64)).sort("cell")
    return dataclasses.replace(run_data, episodes=frame.sort("key"), planned=cells, samples={})


def test_measures_equal_scores_and_lie_in_their_intervals(run_data):
    cells = estimate(run_data).cells
    both = cells.join(run_data.rows, on="cell", suffix="_score")

    shared = [name for name in MEASURES if f"{name}_score" in both.columns]
    assert {"acc_first", "ps", "loops", "share_suggestion", *ANSWERS, *IF_ASKED} <= set(shared)
    for name in shared:
        assert both[name].to_list() == pytest.approx(both[f"{name}_score"].to_list())
    for name in MEASURES:
        bounded = both.drop_nulls(f"{name}_low")
        inside = (bounded[f"{name}_low"] <= bounded[name] + 1e-9) & (bounded[name] <= bounded[f"{name}_high"] + 1e-9)
        assert bounded.height and inside.all(), name


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


def test_average_is_the_unweighted_mean_with_a_stratified_t(run_data):
    rows = [
        *(episode(n, "m/ROD/hint", turns=1 + n % 5, correct=n % 2 == 0) for n in range(40)),
        *(episode(n, "m/QD/hint", turns=1 + n % 3, correct=n % 4 == 0) for n in range(400)),
    ]
    mean = estimate(replace_episodes(run_data, rows)).averages.row(0, named=True)
    parts = [np.array([n % k for n in range(size)]) for size, k in ((40, 5), (400, 3))]
    error = sum(part.var(ddof=1) / len(part) for part in parts) ** 0.5 / 2

    assert mean["acc"] == pytest.approx((50 + 25) / 2)
    assert mean["ps"] == pytest.approx((2 + 399 / 400) / 2)
    assert mean["ps_high"] - mean["ps"] == pytest.approx(2.01 * error, rel=0.02)
    assert (mean["scenarios"], mean["all_seven"]) == (2, False)


def test_an_average_of_those_that_ask_is_the_ratio_of_two_averages(run_data):
    """In one scenario few ask and are right, in the other all ask and are wrong."""
    rows = [episode(n, "m/ROD/hint", Ending.CORRECT if n < 10 else Ending.WRONG, turns=1 + (n < 10)) for n in range(40)]
    rows += [episode(n, "m/QD/hint", Ending.WRONG, turns=2) for n in range(40)]
    mean = estimate(replace_episodes(run_data, rows)).averages.row(0, named=True)

    assert mean["asks"] == pytest.approx((25 + 100) / 2)
    assert mean["right_if_asked"] == pytest.approx(100 * 12.5 / 62.5)
    assert mean["right_if_asked_low"] < 20 < mean["right_if_asked_high"]
