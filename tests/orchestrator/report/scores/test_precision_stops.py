"""A run with stopped cells: counted by their prefix, bounded by the interval that holds at any stop, told in words."""

import math

import polars as pl
import pytest

from orchestrator.merging.merge import merge
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.precision.stopping import bounds, load_rule
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.precision_stops import sort_by_draw
from orchestrator.report.tables.precision import stopped_averages
from orchestrator.storage import run_folder
from orchestrator.tracking.rollup import model_measures
from tests.orchestrator.precision.wide import wide
from tests.orchestrator.report import runs

MODELS = ["uniform", "first-option"]


@pytest.fixture(scope="module")
def data(demo_data, tmp_path_factory):
    return wide(demo_data, tmp_path_factory.mktemp("wide") / "data")


def stopped(data, folder, rule, models=MODELS):
    """A run folder of a sweep whose cells have stopped by the rule, and its stops by cell."""
    wanted = runs.sweep(data, models, ["zero-shot", "hint"], precision=rule)
    runs.played(folder, wanted)
    plan = build_plan(wanted)
    plan = plan.with_stops(load_rule(plan, folder).stops())
    run_folder.write_plan(folder, planned_rows(plan), plan.all_keys())
    return plan, {plan.cells[index].key: n for index, n in plan.stops.items()}


@pytest.mark.parametrize("rule", [{"half_width": 10}, {"half_width": 20, "per": "cell"}])
def test_a_stopped_cell_counts_its_prefix_and_has_the_interval_that_holds_at_any_stop(data, tmp_path, rule):
    plan, stops = stopped(data, tmp_path, rule)
    run_data = read_run(tmp_path)
    cells = {row["cell"]: row for row in estimate(run_data).cells.iter_rows(named=True)}
    rows = {row["cell"]: row for row in run_data.rows.iter_rows(named=True)}
    points = rule["half_width"] * (1 if "per" in rule else math.sqrt(7))

    assert stops and plan.total_with_stops < plan.total
    for index, cell in enumerate(plan.cells):
        row, full = rows[cell.key], len(plan.cell_samples(cell))
        assert (row["planned"], row["finished"], row["full"]) == (plan.size(index), plan.size(index), full)
        mine = sort_by_draw(run_data.episodes.filter(cell=cell.key), run_data.sweep.seed)
        ids = [
            one.id for _, one in sorted(zip(plan.ranks[cell.scenario], plan.cell_samples(cell), strict=True), key=first)
        ]
        assert mine["sample_id"].to_list() == ids[: plan.size(index)]
        if cell.key in stops:
            right = mine["correct"].cast(pl.Float64).to_numpy()
            low, high = bounds([right], [full], stops[cell.key], points / 100)
            assert row["acc_low"] == pytest.approx(min(100 * low, row["acc"]))
            assert row["acc_high"] == pytest.approx(max(100 * high, row["acc"]))
            for name in ("acc", "acc_first", "ps", "loops"):
                assert cells[cell.key][f"{name}_low"] <= cells[cell.key][name] <= cells[cell.key][f"{name}_high"]
            assert (cells[cell.key]["acc_low"], cells[cell.key]["acc_high"]) == (row["acc_low"], row["acc_high"])


def first(pair):
    return pair[0]


def test_the_average_of_a_stopped_model_is_as_precise_as_the_rule_says(data, tmp_path):
    _, stops = stopped(data, tmp_path, {"half_width": 10})
    averages = estimate(read_run(tmp_path)).averages

    seen = 0
    for row in averages.iter_rows(named=True):
        if any(name.startswith(f"{row['model']}/") and name.endswith(f"/{row['condition']}") for name in stops):
            seen += 1
            assert 0 < row["acc_high"] - row["acc_low"] <= 20.0001
    assert seen


def test_the_report_says_what_has_stopped_and_what_beyond_the_stop_is_left_out(data, tmp_path):
    plan, stops = stopped(data, tmp_path, {"half_width": 10})
    notes = read_run(tmp_path).notes
    saved = plan.total - plan.total_with_stops

    assert f"precision +-10 points on the average over scenarios: {len(stops)} of 28 cells stopped" in notes[0]
    assert notes[0].endswith(f"{saved:,} of {plan.total:,} episodes not needed")
    assert any("hold at any stop" in note for note in notes)
    assert any(note.startswith(f"{saved:,} episodes after a stop") for note in notes)


def test_mlflow_has_what_counts_and_what_would_be_played_without_the_rule(data, tmp_path):
    plan, _ = stopped(data, tmp_path, {"half_width": 10})
    found = model_measures(read_run(tmp_path).rows.to_dicts(), "zero-shot")

    assert (found["planned"], found["full"]) == (plan.total_with_stops, plan.total)


def test_without_the_rule_the_folder_is_the_full_set_again(data, tmp_path):
    stopped(data, tmp_path / "a", {"half_width": 10})
    whole = runs.sweep(data, MODELS, ["zero-shot", "hint"])
    with run_folder.claim(tmp_path / "a", whole):
        pass
    runs.played(tmp_path / "a", whole)
    runs.played(tmp_path / "b", whole)

    assert (tmp_path / "a/results.json").read_bytes() == (tmp_path / "b/results.json").read_bytes()
    assert "full" not in read_run(tmp_path / "a").rows.columns


def test_stopped_folders_of_two_models_and_one_that_plays_all_are_merged_as_they_are(data, tmp_path):
    stopped(data, tmp_path / "a", {"half_width": 10}, ["uniform"])
    stopped(data, tmp_path / "b", {"half_width": 8}, ["first-option"])
    runs.played(tmp_path / "c", runs.sweep(data, ["guess"], ["zero-shot", "hint"]))
    alone = [read_run(tmp_path / name).rows.select("cell", "planned", "acc") for name in "abc"]
    merge([tmp_path / name for name in "abc"], tmp_path / "m")

    both = read_run(tmp_path / "m").rows
    assert both.select("cell", "planned", "acc").equals(pl.concat(alone).sort("cell"))
    assert both.filter(model="guess").select(pl.col("full") == pl.col("planned")).to_series().all()


def test_the_table_of_precision_has_each_difference_with_the_interval_by_which_it_stopped(data, tmp_path):
    plan, stops = stopped(data, tmp_path, {"difference": 12})
    rule, found = load_rule(plan, tmp_path), stopped_averages(read_run(tmp_path))

    assert stops and found.height == 2 * 2 + 2, "an average a model and condition, and a difference a model"
    for unit in rule.units:
        model = plan.cells[unit.cells[0]].model.name
        row = found.row(by_predicate=(pl.col("model") == model) & (pl.col("against") == "zero-shot"), named=True)
        low, high = rule.bounds(unit, max(plan.stops[cell] for cell in unit.all_cells if cell in plan.stops))
        assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))
        assert row["high"] - row["low"] <= 24 and row["samples"] < row["full"] == 402
    assert stopped_averages(read_run(runs.played(tmp_path / "b", runs.sweep(data, ["guess"])))).is_empty()
