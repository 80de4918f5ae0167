"""Means of a model and a sweep: scenarios weigh the same, conditions are not mixed, baselines are left out."""

from __future__ import annotations

import pytest

from orchestrator.tracking.rollup import model_measures, sweep_measures
from orchestrator.tracking.tracked_run import Roster


def cell(scenario: str, condition: str = "zero-shot", protocol: str = "mcqa", **measured: float):
    return {"model": "m", "scenario": scenario, "condition": condition, "protocol": protocol, **measured}


def test_a_models_figures_are_means_over_scenarios_under_one_condition():
    cells = [
        cell("ROD", acc=10.0, ps=1.0, finished=30, errors=1, cost=0.5),
        cell("QD", acc=30.0, ps=3.0, finished=10),
        cell("QD", "hint", acc=90.0, ps=9.0, finished=10, cost=0.25),
        cell("VSOD"),
        cell("ROD", protocol="oeg", aggregate=40.0, finished=5),
        cell("ROD", "hint", "oeg", aggregate=80.0),
    ]

    assert model_measures(cells, "zero-shot") == {
        "acc": 20.0, "ps": 2.0, "acc/ROD": 10.0, "acc/QD": 30.0, "scenarios": 2.0, "acc_under/zero-shot": 20.0,
        "ps_under/zero-shot": 2.0, "acc_under/hint": 90.0, "ps_under/hint": 9.0, "aggregate": 40.0, "finished": 55.0,
        "errors": 1.0, "cost": 0.75,
    }  # fmt: skip
    assert model_measures([cell("ROD")], "zero-shot") == {}
    assert "acc_under/a_b" in model_measures([cell("ROD", "a=b", acc=1.0)], "a=b"), "a name that MLflow takes"


def test_a_sweeps_figures_leave_baselines_out_but_count_their_errors():
    models = {
        "oracle": {"acc": 100.0, "errors": 2.0},
        "one": {"acc": 20.0, "acc/QD": 20.0, "errors": 1.0, "finished": 5.0},
        "two": {"acc": 40.0, "scenarios": 7.0},
    }
    measures, best = sweep_measures(models, {"oracle"})

    assert best == "two"
    assert measures == {"acc": 30.0, "acc/QD": 20.0, "best_acc": 40.0, "models": 2.0, "errors": 3.0}
    assert sweep_measures({"oracle": {"acc": 100.0, "errors": 1.0}}, {"oracle"}) == ({"errors": 1.0}, "")


def test_a_sweeps_best_model_is_the_first_of_equals_and_planned_is_no_sum():
    models = {
        "z": {"acc": 40.0, "planned": 8.0, "full": 9.0, "cost": 0.5}, "b": {"acc": 40.0, "ps": 1.005},
        "a": {"acc": 39.99, "ps": 3.0}, "unscored": {"cost": 0.25, "finished": 3.0},
    }  # fmt: skip

    measures, best = sweep_measures(models)
    assert best == "b"
    assert measures == {"acc": 40.0, "ps": 2.0, "best_acc": 40.0, "models": 3.0, "full": 9.0, "cost": 0.75}
    assert list(measures)[:2] == ["acc", "ps"] and sweep_measures({}) == ({}, "")


@pytest.mark.parametrize(
    ("played", "main"),
    [(["hint", "zero-shot"], "zero-shot"), (["b", "a"], "b"), (["z", "a"], "a"), (["z", "hint"], "hint"), ([], "")],
)
def test_main_condition_of_model_accuracy(played, main):
    assert Roster(conditions=("b", "hint")).main_condition(played) == main


def test_models_come_before_baselines_in_the_order_of_the_file():
    roster = Roster.of(
        {"models": [{"name": "uniform", "backend": "builtin"}, {"name": "z"}, {"name": "a"}], "conditions": []}
    )

    assert sorted(["a", "uniform", "z"], key=roster.rank) == ["z", "a", "uniform"]
    assert [roster.kind(name) for name in ("z", "uniform")] == ["model", "baseline"]
