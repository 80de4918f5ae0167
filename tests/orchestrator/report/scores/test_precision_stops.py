"""A run with stopped cells counts their prefix, uses the interval that holds at any stop, and notes the stops."""

import math

import polars as pl
import pytest

from orchestrator.planning.build_plan import build_plan, planned_cells
from orchestrator.precision.stopping import bounds, load_rule
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.precision_stops import MEASURES, anytime_intervals, sort_by_draw
from orchestrator.storage import run_folder
from tests.orchestrator.precision.wide import wide
from tests.orchestrator.report import runs

MODELS = ["uniform", "first-option"]


@pytest.fixture(scope="module")
def data_folder(demo_data, tmp_path_factory):
    return wide(demo_data, tmp_path_factory.mktemp("wide") / "data")


def play_stopped(data_folder, folder, rule, models=MODELS):
    """Play a sweep whose cells stop by the rule; return its plan and its stops by cell."""
    wanted = runs.sweep(data_folder, models, ["zero-shot", "hint"], precision=rule)
    runs.play_sweep(folder, wanted)
    plan = build_plan(wanted)
    plan = plan.with_stops(load_rule(plan, folder).stops())
    run_folder.write_plan(folder, planned_cells(plan), plan.all_keys())
    return plan, {plan.cells[index].key: n for index, n in plan.stops.items()}


@pytest.mark.parametrize("rule", [{"half_width": 10}, {"half_width": 20, "per": "cell"}])
def test_stopped_cell_counts_its_prefix_with_stopping_interval(data_folder, tmp_path, rule):
    plan, stops = play_stopped(data_folder, tmp_path, rule)
    run_data = read_run(tmp_path)
    cells = {row["cell"]: row for row in estimate(run_data).cells.iter_rows(named=True)}
    rows = {row["cell"]: row for row in run_data.rows.iter_rows(named=True)}
    points = rule["half_width"] * (1 if "per" in rule else math.sqrt(7))

    assert stops and plan.total_with_stops < plan.total
    for index, cell in enumerate(plan.cells):
        row, full = rows[cell.key], len(plan.cell_samples(cell))
        assert (row["planned"], row["finished"], row["full"]) == (plan.size(index), plan.size(index), full)
        prefix = sort_by_draw(run_data.episodes.filter(cell=cell.key), run_data.sweep.seed)
        ranks = {
            sample.id: rank for rank, sample in zip(plan.ranks[cell.scenario], plan.cell_samples(cell), strict=True)
        }
        assert prefix["sample_id"].to_list() == sorted(ranks, key=ranks.__getitem__)[: plan.size(index)]
        if cell.key in stops:
            assert set(anytime_intervals([prefix], [full], points)) == set(MEASURES), "suggestions need their maximum"
            right = prefix["correct"].cast(pl.Float64).to_numpy()
            low, high = bounds([right], [full], stops[cell.key], points / 100)
            assert row["acc_low"] == pytest.approx(min(100 * low, row["acc"]))
            assert row["acc_high"] == pytest.approx(max(100 * high, row["acc"]))
            for name in ("acc", "acc_first", "ps", "loops"):
                assert cells[cell.key][f"{name}_low"] <= cells[cell.key][name] <= cells[cell.key][f"{name}_high"]
            assert (cells[cell.key]["acc_low"], cells[cell.key]["acc_high"]) == (row["acc_low"], row["acc_high"])


def test_stopped_average_has_precision_of_rule(data_folder, tmp_path):
    _, stops = play_stopped(data_folder, tmp_path, {"half_width": 10})
    averages = estimate(read_run(tmp_path)).averages

    stopped_averages = 0
    for row in averages.iter_rows(named=True):
        if any(name.startswith(f"{row['model']}/") and name.endswith(f"/{row['condition']}") for name in stops):
            stopped_averages += 1
            assert 0 < row["acc_high"] - row["acc_low"] <= 20.0001
    assert stopped_averages
