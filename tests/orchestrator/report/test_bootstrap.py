"""Intervals against brute force and scipy: right in distribution, the same for the same seed, untouched by errors."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap

from envs import SCENARIOS
from orchestrator.report.bootstrap import MEASURES, bootstrap, bounds, generator, resampled
from orchestrator.report.run_data import RunData
from orchestrator.storage.episode_store import EPISODES
from tests.orchestrator.blocks import episode


def made(run_data: RunData, rows, planned=None) -> RunData:
    """RunData of these episodes alone; every cell plans what it has unless told."""
    frame = pl.DataFrame(rows, schema=EPISODES)
    counts = frame.group_by("model", "scenario", "condition", "protocol", "cell").agg(
        pl.len().cast(pl.Int64).alias("planned")
    )
    cells = (
        counts.sort("cell") if planned is None else counts.sort("cell").with_columns(pl.lit(planned).alias("planned"))
    )
    return dataclasses.replace(run_data, episodes=frame.sort("key"), planned=cells, samples={})


def test_a_histogram_is_resampled_like_its_episodes(run_data):
    values = np.array([1, 1, 1, 2, 2, 3, 5, 9, 9, 14] * 6)
    kinds, counts = np.unique(values, return_counts=True)
    drawn = resampled(kinds[:, None], counts, 20_000, generator(0, "x"))[:, 0] / len(values)
    low, high = bounds(drawn)
    theirs = scipy_bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1))

    assert drawn.mean() == pytest.approx(values.mean(), abs=0.02)
    assert drawn.std() == pytest.approx(values.std() / np.sqrt(len(values)), rel=0.03)
    assert (low, high) == pytest.approx(tuple(theirs.confidence_interval), abs=0.06)


def test_measures_equal_those_of_score_and_lie_in_their_intervals(run_data):
    cells = bootstrap(run_data, resamples=200).cells
    both = cells.join(run_data.rows, on="cell", suffix="_score")

    for name in ("ps", "loops", "share_suggestion", "share_abstention", "share_category", "share_unparsable"):
        assert both[name].to_list() == pytest.approx(both[f"{name}_score"].to_list())
    for name in MEASURES:
        inside = (both[f"{name}_low"] <= both[name] + 1e-9) & (both[name] <= both[f"{name}_high"] + 1e-9)
        assert inside.all(), name


def test_an_average_is_the_unweighted_mean_and_its_interval_the_stratified_one(run_data):
    rows = [
        *(episode(n, "m/ROD/hint", turns=1 + n % 5, correct=n % 2 == 0) for n in range(40)),
        *(episode(n, "m/QD/hint", turns=1 + n % 3, correct=n % 4 == 0) for n in range(400)),
    ]
    mean = bootstrap(made(run_data, rows), resamples=20_000).averages.row(0, named=True)
    rng = np.random.default_rng(5)
    strata = [np.array([1 + n % k for n in range(size)]) - 1.0 for size, k in ((40, 5), (400, 3))]
    brute = np.mean([rng.choice(s, (4_000, len(s))).mean(axis=1) for s in strata], axis=0)

    assert mean["acc"] == pytest.approx((50 + 25) / 2)
    assert mean["ps"] == pytest.approx(np.mean([s.mean() for s in strata]))
    assert (mean["ps_low"], mean["ps_high"]) == pytest.approx(tuple(np.percentile(brute, [2.5, 97.5])), abs=0.02)
    assert (mean["scenarios"], mean["all_seven"]) == (2, False)


def test_the_same_seed_gives_the_same_bounds_in_any_order_and_company(run_data):
    whole = bootstrap(run_data, resamples=300)
    shuffled = dataclasses.replace(run_data, episodes=run_data.episodes.sample(fraction=1, shuffle=True, seed=3))
    alone = dataclasses.replace(run_data, planned=run_data.planned.filter(model="uniform"))
    only = pl.col("model") == "uniform"

    assert bootstrap(shuffled, resamples=300).cells.equals(whole.cells)
    assert bootstrap(alone, resamples=300).cells.equals(whole.cells.filter(only))
    assert not bootstrap(run_data, resamples=300, seed=1).cells.equals(whole.cells)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["unprocessable", "refused", "failed"]), min_size=1, max_size=6))
def test_errors_change_counts_and_no_measure(run_data, errors):
    answers = [
        episode(n, turns=1 + n % 4, correct=n % 3 == 0, ending="correct" if n % 3 == 0 else "wrong") for n in range(12)
    ]
    wrong = [episode(50 + n, ending=ending, correct=False, turns=0) for n, ending in enumerate(errors)]
    clean = bootstrap(made(run_data, answers), resamples=100).cells.row(0, named=True)
    dirty = bootstrap(made(run_data, answers + wrong), resamples=100).cells.row(0, named=True)
    counts = {"planned", "finished", "failed", "errors"}

    assert dirty["errors"] == len(errors)
    assert {k: v for k, v in dirty.items() if k not in counts} == {k: v for k, v in clean.items() if k not in counts}


def test_a_cell_without_answers_has_no_measure(run_data):
    rows = [episode(1, ending="failed", correct=False, turns=0)]
    found = bootstrap(made(run_data, rows), resamples=50)

    assert found.cells.row(0, named=True)["ps"] is None
    assert found.averages.row(0, named=True)["acc"] is None


def test_every_scenario_counts_once(run_data):
    averages = bootstrap(run_data, resamples=50).averages.filter(condition="zero-shot")

    assert set(averages["scenarios"]) == {len(SCENARIOS)}
    assert averages["all_seven"].all()
