"""Operating curves of two samples: budgets end where nothing is gained, and results get the exact columns."""

import numpy as np
import polars as pl
import pytest

from envs import SCENARIOS
from envs.errors import RunFolderError
from orchestrator.operating.policy import BIASES
from orchestrator.operating.split import Curve
from orchestrator.report.measures import operating_splits as operating_splits_room
from orchestrator.report.measures.operating_curves import exact_uniform, operating_cells
from orchestrator.report.measures.operating_points import (
    ENDS,
    MEASURES,
    PLAIN,
    RARE,
    operating_budgets,
    operating_points,
)
from orchestrator.report.measures.operating_splits import (
    count_left_out,
    operating_splits,
    split_between,
    splits_between,
)
from orchestrator.report.measures.result_columns import EXACT, SOURCES, add_exact_values
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.measures.test_operating_points import KEENNESS, MODEL, PlantedModel
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def small_run(demo_data, tmp_path_factory):
    """Two models and a policy on two samples of QD, in the published order of the options only."""
    own = {"name": "one-order", "every_state": True, "orders": 0}
    wanted = sweep(
        demo_data, [*KEENNESS, "oracle"], ["zero-shot", "one-order"], scenarios=["QD"], selection={"limit": 2},
        model=[{**MODEL, "name": name} for name in KEENNESS], condition=[own],
    )  # fmt: skip
    backends = {name: PlantedModel(keenness) for name, keenness in KEENNESS.items()}
    return read_run(play_sweep(tmp_path_factory.mktemp("small") / "run", wanted, backends=backends))


def test_budgets_count_from_zero_to_the_first_that_changes_nothing(small_run):
    rows = operating_budgets(small_run)

    assert set(rows["model"]) == {*KEENNESS, "oracle"}
    points = dict(operating_points(small_run).filter(scenario="QD").select("model", "acc").rows())
    for (model,), part in rows.group_by(["model"]):
        acc = part.sort("budget")["acc"].to_list()
        assert part.sort("budget")["budget"].to_list() == list(range(len(acc))), "no budget is left out"
        assert acc == sorted(acc) and (len(acc) == 1 or acc[-1] > acc[-2] + 1e-9), "the last budget still helps"
        assert acc[-1] == pytest.approx(points[model], abs=1e-6), "with enough suggestions it is the model's own point"
    oracle = rows.filter(model="oracle").sort("budget")
    assert oracle["acc"].to_list()[-1] == 100.0


def test_points_of_one_scenario_are_those_of_its_mean(small_run):
    points = operating_points(small_run)
    cell, mean = (
        points.filter(pl.col("scenario").is_null() == is_mean, model="shy").row(0, named=True)
        for is_mean in (False, True)
    )

    assert (cell["scenario"], mean["scenario"], mean["scenarios"], mean["samples"]) == ("QD", None, 1, 2)
    assert {name: cell[name] for name in points.columns[3:]} == {name: mean[name] for name in points.columns[3:]}
    numbers = [f"{name}{end}" for name in MEASURES for end in (ENDS if name not in RARE else ENDS[:1])]
    assert points.columns == [
        "model", "scenario", "condition", "scenarios", "samples", "clusters", "orders", "thoughts", "exact", *numbers, *PLAIN,
    ]  # fmt: skip
    assert cell["exact"] and (cell["orders"], cell["thoughts"], cell["clusters"]) == (1, 0, 2)
    assert cell["oracle_ps"] == pytest.approx(
        sum(SCENARIOS["QD"].solution(sample)[-1].turn - 1 for sample in small_run.samples["QD"].values()) / 2
    )
    assert cell["unreadable"] == pytest.approx(0.0, abs=1e-6) and 0 < cell["chance_acc"] < 100


def test_results_get_the_exact_columns_in_their_own_row(small_run):
    names = ["model", "scenario", "condition"]
    rows = pl.DataFrame([("shy", "QD", "one-order"), ("shy", "QD", "zero-shot")], schema=names, orient="row")
    added = add_exact_values(rows, small_run.folder)
    point = operating_points(small_run).filter(scenario="QD", model="shy").row(0, named=True)

    assert added.columns == [*names, *EXACT]
    assert EXACT == (
        "exact_acc", "exact_ps", "greedy_acc", "greedy_ps", "asking_auc", "neutral_b", "position_sd", "unreadable"
    )  # fmt: skip
    assert [added.row(0, named=True)[name] for name in EXACT] == [point[name] for name in SOURCES]
    assert set(added.select(EXACT).row(1)) == {None}


def test_uniform_play_of_absent_samples_is_unknown(small_run):
    assert exact_uniform(small_run, "ROD") is None
    accuracy, suggestions = exact_uniform(small_run, "QD")
    assert 0 < accuracy < 1 and suggestions > 0


def test_cells_are_those_of_the_sweep_and_pairs_are_of_models(small_run):
    cells = operating_cells(small_run)

    assert [(cell.model, cell.scenario, cell.condition, cell.orders) for cell in cells] == [
        (name, "QD", "one-order", 1) for name in (*KEENNESS, "oracle")
    ]
    assert all(cell.exact and len(cell.samples) == 2 for cell in cells)
    rows = operating_splits(small_run)
    assert rows.select("before", "after", "family", "scenario", "scenarios").rows() == [
        ("shy, one-order", "eager, one-order", family, scenario, 1)
        for family in ("plain", "persistent") for scenario in ("QD", None)
    ]  # fmt: skip
    assert split_between(small_run, "shy, one-order", "eager, one-order").equals(rows)
    with pytest.raises(RunFolderError, match=r"^oracle has no exact curves; those of this run: shy, one-order, eager"):
        split_between(small_run, "shy, one-order", "oracle")


def test_two_runs_are_split_by_their_names(small_run):
    rows = splits_between(small_run, small_run, ("old", "new"))
    names = [("shy, one-order of old", "shy, one-order of new"), ("eager, one-order of old", "eager, one-order of new")]

    assert rows.select("before", "after", "family", "scenario", "scenarios").rows() == [
        (*pair, family, scenario, 1)
        for pair in names for family in ("plain", "persistent") for scenario in ("QD", None)
    ]  # fmt: skip
    assert set(rows["difference"]) == set(rows["more"]) == set(rows["better"]) == {0.0}


def test_pairs_beyond_the_most_are_counted(small_run, monkeypatch):
    assert count_left_out(small_run) == 0
    monkeypatch.setattr("orchestrator.report.measures.operating_splits.MOST_PAIRS", 0)
    assert count_left_out(small_run) == 1


def test_pairs_share_their_model_or_their_condition(monkeypatch):
    keys = [(model, condition) for model in ("a", "b") for condition in ("plain", "own")]
    monkeypatch.setattr(operating_splits_room, "exact_series", lambda _: dict.fromkeys(keys))

    assert operating_splits_room._pairs(None) == [
        (("a", "plain"), ("a", "own")), (("a", "plain"), ("b", "plain")), (("a", "own"), ("b", "own")),
        (("b", "plain"), ("b", "own")),
    ]  # fmt: skip
    assert operating_splits_room._series_name("a", "every-state") == "a"


def test_a_split_has_percent_and_nothing_where_a_curve_would_be_extrapolated():
    turns = np.tile(np.linspace(0.0, 2.0, len(BIASES)), (3, 1))
    flat = Curve(np.full(turns.shape, 0.5), turns)
    better = Curve(flat.accuracy + 0.25, flat.suggestions)
    far = Curve(flat.accuracy, flat.suggestions + 9)
    clusters = ["a", "b", "c"]
    each, mean, count = operating_splits_room.split_intervals([(flat, better, clusters), (flat, far, clusters)])
    points = [operating_splits_room._points(parts) for parts in (*each, mean)]

    assert points[0] == points[2] == pytest.approx([25.0] * 3 + [0.0] * 3 + [25.0] * 3) and count == 1
    assert points[1] == [0.0] * 3 + [None] * 6, "a difference without parts"
    _, nothing, none = operating_splits_room.split_intervals([(flat, far, clusters)])
    assert (operating_splits_room._points(nothing), none) == ([None] * 9, 0)
