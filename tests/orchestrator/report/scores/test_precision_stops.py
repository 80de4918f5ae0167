"""A run with stopped cells counts their prefix, uses the interval that holds at any stop, and notes the stops."""

import math
import re

import polars as pl
import pytest

from orchestrator.merging.merge import merge
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.precision.stopping import bounds, load_rule
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.precision_stops import (
    MEASURES,
    anytime_intervals,
    describe_planned_savings,
    describe_savings,
    sort_by_draw,
)
from orchestrator.storage import run_folder
from orchestrator.tracking.rollup import model_measures
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
    run_folder.write_plan(folder, planned_rows(plan), plan.all_keys())
    return plan, {plan.cells[index].key: n for index, n in plan.stops.items()}


def test_a_plan_says_what_its_rule_would_play_at_three_accuracies(data_folder):
    wanted = runs.sweep(data_folder, MODELS, ["zero-shot", "hint"], precision={"half_width": 10})
    plan = build_plan(wanted)
    sizes = [plan.size(index) for index in range(len(plan.cells))]

    (sentence,) = describe_planned_savings(wanted.precision, plan.cells, sizes)
    total, *counts = (int(count.replace(",", "")) for count in re.findall(r"([\d,]+) (?:episodes|\()", sentence))
    few, more, most = counts
    assert total == sum(sizes) and 0 < few <= more <= most < total
    assert sentence == (
        f"precision, simulated: of {total:,} episodes, the rule would play {few:,} ({few / total:.0%}) at 10% accuracy, "
        f"{more:,} ({more / total:.0%}) at 25% accuracy, {most:,} ({most / total:.0%}) at 50% accuracy"
    )
    assert describe_planned_savings(None, plan.cells, sizes) == []


def test_a_run_says_what_its_rule_saved(data_folder):
    wanted = runs.sweep(data_folder, MODELS, ["zero-shot"], precision={"half_width": 10})
    cells = [{"planned": 40, "full": 1200}, {"planned": 5, "full": 5}, {"planned": 7}]

    assert describe_savings(wanted.precision, cells) == [
        f"precision {wanted.precision.description}: 1 of 3 cells stopped, 1,160 of 1,212 episodes not needed"
    ]
    assert describe_savings(None, cells) == []


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
        ids = [
            sample.id
            for _, sample in sorted(
                zip(plan.ranks[cell.scenario], plan.cell_samples(cell), strict=True), key=first_item
            )
        ]
        assert prefix["sample_id"].to_list() == ids[: plan.size(index)]
        if cell.key in stops:
            assert set(anytime_intervals([prefix], [full], points)) == set(MEASURES), "suggestions need their maximum"
            right = prefix["correct"].cast(pl.Float64).to_numpy()
            low, high = bounds([right], [full], stops[cell.key], points / 100)
            assert row["acc_low"] == pytest.approx(min(100 * low, row["acc"]))
            assert row["acc_high"] == pytest.approx(max(100 * high, row["acc"]))
            for name in ("acc", "acc_first", "ps", "loops"):
                assert cells[cell.key][f"{name}_low"] <= cells[cell.key][name] <= cells[cell.key][f"{name}_high"]
            assert (cells[cell.key]["acc_low"], cells[cell.key]["acc_high"]) == (row["acc_low"], row["acc_high"])


def first_item(pair):
    return pair[0]


def test_stopped_average_has_precision_of_rule(data_folder, tmp_path):
    _, stops = play_stopped(data_folder, tmp_path, {"half_width": 10})
    averages = estimate(read_run(tmp_path)).averages

    stopped_averages = 0
    for row in averages.iter_rows(named=True):
        if any(name.startswith(f"{row['model']}/") and name.endswith(f"/{row['condition']}") for name in stops):
            stopped_averages += 1
            assert 0 < row["acc_high"] - row["acc_low"] <= 20.0001
    assert stopped_averages


def test_report_notes_stops_and_episodes_left_out(data_folder, tmp_path):
    plan, stops = play_stopped(data_folder, tmp_path, {"half_width": 10})
    notes = read_run(tmp_path).notes
    saved = plan.total - plan.total_with_stops

    assert f"precision +-10 points on the average over scenarios: {len(stops)} of 28 cells stopped" in notes[0]
    assert notes[0].endswith(f"{saved:,} of {plan.total:,} episodes not needed")
    assert any("hold at any stop" in note for note in notes)
    assert any(note.startswith(f"{saved:,} episodes after a stop") for note in notes)


def test_mlflow_has_stopped_and_full_counts(data_folder, tmp_path):
    plan, _ = play_stopped(data_folder, tmp_path, {"half_width": 10})
    measures = model_measures(read_run(tmp_path).rows.to_dicts(), "zero-shot")

    assert (measures["planned"], measures["full"]) == (plan.total_with_stops, plan.total)


def test_removing_rule_restores_full_set(data_folder, tmp_path):
    play_stopped(data_folder, tmp_path / "a", {"half_width": 10})
    full_sweep = runs.sweep(data_folder, MODELS, ["zero-shot", "hint"])
    with run_folder.claim(tmp_path / "a", full_sweep):
        pass
    runs.play_sweep(tmp_path / "a", full_sweep)
    runs.play_sweep(tmp_path / "b", full_sweep)

    assert (tmp_path / "a/results.json").read_bytes() == (tmp_path / "b/results.json").read_bytes()
    assert "full" not in read_run(tmp_path / "a").rows.columns


def test_stopped_and_full_folders_merge_unchanged(data_folder, tmp_path):
    play_stopped(data_folder, tmp_path / "a", {"half_width": 10}, ["uniform"])
    play_stopped(data_folder, tmp_path / "b", {"half_width": 8}, ["first-option"])
    runs.play_sweep(tmp_path / "c", runs.sweep(data_folder, ["guess"], ["zero-shot", "hint"]))
    alone = [read_run(tmp_path / name).rows.select("cell", "planned", "acc") for name in "abc"]
    merge([tmp_path / name for name in "abc"], tmp_path / "m")

    both = read_run(tmp_path / "m").rows
    assert both.select("cell", "planned", "acc").equals(pl.concat(alone).sort("cell"))
    assert both.filter(model="guess").select(pl.col("full") == pl.col("planned")).to_series().all()
