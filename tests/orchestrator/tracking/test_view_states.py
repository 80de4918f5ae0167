"""The whole state of MLflow's saved views, and the description of an experiment, written out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from envs import SCENARIOS
from orchestrator.tracking.mlflow import saved_views
from orchestrator.tracking.mlflow.saved_views import CELLS, MODELS, SWEEPS, views

COMMON = {"metricSectionId": "charts", "deleted": False, "isGenerated": False}


def charts(view: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in chart.items() if key not in COMMON}
        for chart in views(["hint"])[view][1]["compareRunCharts"]
    ]


def bar(uuid: str, metric: str) -> dict[str, Any]:
    return {"uuid": uuid, "type": "BAR", "metricKey": metric, "runsCountToCompare": 50}


def line(uuid: str, metric: str) -> dict[str, Any]:
    return {
        "uuid": uuid, "type": "LINE", "metricKey": metric, "selectedMetricKeys": [metric], "runsCountToCompare": 50,
        "xAxisKey": "time-relative", "useGlobalXaxisKey": False, "scaleType": "linear", "yAxisKey": "metric",
    }  # fmt: skip


def scatter(uuid: str) -> dict[str, Any]:
    axes = {"xaxis": {"key": "ps", "type": "METRIC"}, "yaxis": {"key": "acc", "type": "METRIC"}}
    return {"uuid": uuid, "type": "SCATTER", "runsCountToCompare": 50, **axes}


def parallel(uuid: str, name: str, metrics: list[str]) -> dict[str, Any]:
    return {
        "uuid": uuid, "type": "PARALLEL", "displayName": name, "selectedParams": [], "selectedMetrics": metrics,
        "runsCountToCompare": 50, "showAllRuns": False,
    }  # fmt: skip


def test_view_of_cells_in_full() -> None:
    selected = [
        "params.`model`", "params.`scenario`", "params.`condition`", "params.`kind`", "metrics.`acc`", "metrics.`acc_low`",
        "metrics.`acc_high`", "metrics.`ps`", "metrics.`loops`", "metrics.`errors`", "metrics.`finished`",
    ]  # fmt: skip
    names = {"charts": ("ProactiveBench", True), "model": ("Model metrics", False), "system": ("System metrics", False)}
    name, state = views([])[CELLS]

    assert name == "Cells" and state == {
        "searchFilter": "tags.level = 'cell'", "orderByKey": "metrics.`acc`", "orderByAsc": False,
        "selectedColumns": selected, "columnOrder": ["attributes.`Run Name`", *selected],
        "compareRunCharts": [
            {**chart, **COMMON} for chart in (bar("cell-0", "acc"), scatter("cell-1"), bar("cell-2", "loops"))
        ],
        "compareRunSections": [
            {"uuid": key, "name": title, "display": display, "isReordered": True}
            for key, (title, display) in names.items()
        ],
        "isAccordionReordered": True,
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": "model"}]},
        "useGroupedValuesInCharts": False, "runsHiddenMode": "SHOW_ALL", "hideEmptyCharts": True,
    }  # fmt: skip


def test_charts_and_columns_of_models_and_sweeps() -> None:
    accuracies = [f"acc/{name}" for name in SCENARIOS]
    by_scenario = [f"metrics.`{name}`" for name in accuracies]

    assert charts(MODELS) == [
        bar("model-0", "acc"), scatter("model-1"), parallel("model-2", "acc by condition", ["acc_under/hint"]),
        parallel("model-3", "acc by scenario", accuracies), bar("model-4", "loops"), bar("model-5", "cost"),
    ]  # fmt: skip
    assert charts(SWEEPS) == [
        bar("sweep-0", "acc"), bar("sweep-1", "best_acc"), line("sweep-2", "episodes_per_second"),
        line("sweep-3", "system/gpus_utilization_percentage"), line("sweep-4", "acc"),
        parallel("sweep-5", "acc by condition", ["acc_under/hint"]),
    ]  # fmt: skip
    measures = [f"metrics.`{name}`" for name in ("acc", "ps", "loops", "errors", "cost")]
    assert views([])[MODELS][1]["selectedColumns"] == ["params.`kind`", "params.`sweep`", *measures, *by_scenario]
    assert views([])[SWEEPS][1]["selectedColumns"] == [
        "tags.`best_model`", "metrics.`best_acc`", *measures, *by_scenario,
    ]  # fmt: skip
    assert views([])[SWEEPS][1]["groupBy"] is None


class Client:
    """An experiment with its tags, and runs of sweeps."""

    def __init__(self, tags: dict[str, str], runs: list[Any]) -> None:
        self.tags, self.runs = dict(tags), runs

    def get_experiment(self, experiment: str) -> Any:
        return SimpleNamespace(tags=dict(self.tags))

    def set_experiment_tag(self, experiment: str, key: str, value: str) -> None:
        self.tags[key] = value

    def search_runs(self, experiments: list[str], query: str, max_results: int) -> list[Any]:
        assert (experiments, query, max_results) == (["7"], "tags.level = 'sweep'", 20)
        return self.runs


def run(number: int, tags: dict[str, str], **metrics: float) -> Any:
    info = SimpleNamespace(start_time=number, run_name=f"s_{number}", run_id=f"id{number}", status="FINISHED")
    return SimpleNamespace(info=info, data=SimpleNamespace(metrics=metrics, tags=tags))


def test_the_description_lists_sweeps_newest_first_with_the_best_model_of_all() -> None:
    runs = [
        run(1, {"best_model": "b"}, best_acc=61.26, acc=50.0), run(3, {}, best_acc=99.0),
        run(2, {"best_model": "a*"}, best_acc=61.27),
    ]  # fmt: skip
    client = Client({}, runs)
    saved_views.describe_experiment(client, "7")
    page = "#/experiments/7/runs?viewStateShareKey=proactive-sweep-"

    assert client.tags["mlflow.experimentKind"] == "custom_model_development"
    assert client.tags["mlflow.note.content"].splitlines() == [
        f"best acc 61.3, a\\*; tables: [models]({page}models), [sweeps side by side]({page}sweeps), [cells]({page}cells)",
        "",
        "Models see pictures that do not show enough, and may ask for more (ProactiveBench). `acc` is the percentage of",
        "right answers, the mean over scenarios; `mean acc` is over all models without baselines.",
        "",
        "| sweep | best model | acc | mean acc | status |",
        "| --- | --- | --- | --- | --- |",
        "| [s\\_3](#/experiments/7/runs/id3) | - | 99.0 | - | finished |",
        "| [s\\_2](#/experiments/7/runs/id2) | a\\* | 61.3 | - | finished |",
        "| [s\\_1](#/experiments/7/runs/id1) | b | 61.3 | 50.0 | finished |",
    ]
    empty = Client({"mlflow.experimentKind": "other"}, [])
    saved_views.describe_experiment(empty, "7")
    assert empty.tags["mlflow.experimentKind"] == "other"
    assert empty.tags["mlflow.note.content"].startswith("tables: [models](#/experiments/7/runs?")
