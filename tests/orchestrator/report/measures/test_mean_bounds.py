"""Every printed mean has an interval that covers planted truth, holds its value, and widens where samples cluster."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from orchestrator.report.measures.clustering import number_clusters
from orchestrator.report.measures.efficiency import efficiency
from orchestrator.report.measures.endings import ending_counts
from orchestrator.report.measures.first_turn_filter import first_turns, threshold_counts
from orchestrator.report.measures.lenient import READINGS, leniency
from orchestrator.report.measures.mean_bounds import add_bounds, average_bounds

CELLS, EPISODES = 400, 60


def plant(draw, seed: int) -> pl.DataFrame:
    """Return the episodes of many cells whose measure is drawn from one distribution."""
    values = draw(np.random.default_rng(seed), (CELLS, EPISODES))
    names = {"scenario": "QD", "sample_id": np.tile(np.arange(EPISODES), CELLS)}
    return pl.DataFrame({"cell": np.repeat([f"c{n:03}" for n in range(CELLS)], EPISODES), **names, "x": values.ravel()})


@pytest.mark.parametrize(
    ("draw", "limits", "truth"),
    [
        (lambda rng, shape: rng.random(shape) < 0.05, None, 5.0),
        (lambda rng, shape: rng.random(shape) < 0.6, None, 60.0),
        (lambda rng, shape: 100 * (rng.random(shape) < 0.3) / rng.integers(1, 4, shape), (0.0, 100.0), 100 * 0.3 * 11 / 18),
        (lambda rng, shape: np.minimum(rng.poisson(1.0, shape), 14).astype(float), (0.0, 14.0), 1.0),
    ],
)  # fmt: skip
def test_intervals_cover_planted_means(run_data, draw, limits, truth):
    episodes, plain = plant(draw, 7), dataclasses.replace(run_data, cluster="")
    rows = add_bounds(episodes.select("cell").unique(maintain_order=True), episodes, plain, {"x": limits})

    covered = 100 * ((rows["x_low"] <= truth) & (truth <= rows["x_high"])).mean()
    assert rows.height == CELLS and 92.5 <= covered <= 98.5


def test_clusters_widen_an_interval(run_data):
    """Samples of one cluster that always agree count as about one."""
    plain, clustered = (dataclasses.replace(run_data, cluster=name) for name in ("", "object"))
    clusters = number_clusters(clustered, "MVP-N", "object")
    repeated = pl.concat([clusters] * 6)  # enough samples of each object
    episodes = repeated.select("scenario", "sample_id", cell=pl.lit("c"), x=pl.col("cluster") % 2 == 0)
    narrow, wide = (
        add_bounds(episodes.select("cell").unique(), episodes, data, {"x": None}).row(0, named=True)
        for data in (plain, clustered)
    )

    assert narrow["x_low"] > wide["x_low"] and narrow["x_high"] < wide["x_high"]


def test_an_episode_without_a_value_and_a_cell_without_episodes_have_no_bounds(run_data):
    episodes = pl.DataFrame(
        {"cell": ["c", "c"], "scenario": "QD", "sample_id": [0, 1], "x": [None, True], "y": [None, None]}
    )
    cells = pl.DataFrame({"cell": ["c", "d"]})
    rows = add_bounds(cells, episodes, dataclasses.replace(run_data, cluster=""), {"x": None, "y": (0.0, 1.0)})

    assert rows["x_low"].is_null().to_list() == [False, True] and rows["y_low"].null_count() == 2


def test_average_is_over_rows_with_a_value():
    rows = pl.DataFrame(
        {"m": ["a", "a", "b"], "x": [10.0, None, None], "x_low": [5.0, None, None], "x_high": [20.0, None, None]}
    )

    a, b = average_bounds(rows, ["m"], ["x"]).rows(named=True)
    assert (a["x"], a["x_low"], a["x_high"]) == (10.0, 5.0, 20.0) and b["x"] is None


def test_every_measure_of_a_run_lies_within_its_bounds(run_data):
    tables = {
        "efficiency": (efficiency(run_data), ("asked", "surplus", "efficiency", "efficiency_above_chance")),
        "endings": (ending_counts(run_data), ("percent",)),
        "lenient": (leniency(run_data), READINGS),
    }
    for rows, measures in tables.values():
        for name in measures:
            valued = rows.drop_nulls(name)
            inside = (valued[f"{name}_low"] - 1e-3 <= valued[name]) & (valued[name] <= valued[f"{name}_high"] + 1e-3)
            assert valued.height and inside.all(), name


def test_filter_shares_have_bounds(run_data):
    selection = run_data.sweep.selection.model_copy(update={"filtered": False})
    sweep = run_data.sweep.model_copy(update={"selection": selection})
    everything = dataclasses.replace(run_data, sweep=sweep)
    rows = threshold_counts(first_turns(everything), 25)
    for name in ("kept_share", "first_turn"):
        assert (rows[f"{name}_low"] <= rows[name]).all() and (rows[name] <= rows[f"{name}_high"]).all()
