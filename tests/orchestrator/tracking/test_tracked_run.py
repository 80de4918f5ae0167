"""The description of a run for MLflow, and the means of its models: scenarios weigh the same, baselines are left out."""

from __future__ import annotations

from hashlib import sha256

from orchestrator.tracking.rollup import model_measures, sweep_measures
from orchestrator.tracking.tracker import describe_dataset


def test_a_data_set_has_the_digest_of_all_its_samples_in_order():
    described = describe_dataset("demo", "data/demo", {"ROD": {2: "c", 1: "b"}, "QD": {5: "a"}})  # type: ignore[dict-item]

    assert (described["name"], described["source"]) == ("demo: QD, ROD", {"uri": "data/demo"})
    assert described["digest"] == sha256(b"'a''b''c'").hexdigest()[:8]
    assert described["profile"] == {"samples": 3, "QD": 1, "ROD": 2}


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
        "one": {"acc": 20.0, "acc/QD": 20.0, "errors": 1.0, "finished": 5.0, "planned": 8.0},
        "two": {"acc": 40.0, "scenarios": 7.0},
        "equal": {"acc": 40.0},
    }
    measures, best = sweep_measures(models, {"oracle"})

    assert best == "equal", "the first by name"
    assert measures == {"acc": 33.33, "acc/QD": 20.0, "best_acc": 40.0, "models": 3.0, "errors": 3.0}
    assert sweep_measures({"oracle": {"acc": 100.0, "errors": 1.0}}, {"oracle"}) == ({"errors": 1.0}, "")
