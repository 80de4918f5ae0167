"""MLflow's page of an experiment: its description, and saved views, which are a filter, an order, columns and charts.

Views are tags of the experiment, as the page's own *Save view* button writes them. MLflow 3.17 opens one by the id in the
address; an older MLflow shows its usual page.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from envs import SCENARIOS

TAG = "mlflow.sharedViewState."
"""Prefix of a view's id in an experiment's tag; the value is ``{"name", "createdAt", "updatedAt", "state"}``."""
MODELS, SWEEPS, CELLS = "proactive-sweep-models", "proactive-sweep-sweeps", "proactive-sweep-cells"
"""Ids of the views."""
VIEWS = ((MODELS, "models"), (SWEEPS, "sweeps side by side"), (CELLS, "cells"))
RUNS_PER_CHART = 50
KIND, RUNS_FIRST = "mlflow.experimentKind", "custom_model_development"
"""Tag and value with which MLflow shows runs first."""
NOTE = "mlflow.note.content"
ANSWER = "answer"
"""Tag of a sweep's run: the sentences on whether its models ask."""
EXPLANATION = """Models see pictures that do not show enough, and may ask for more (ProactiveBench). `asks` is the percentage of
episodes in which a model asks first, `acc` the percentage of right answers; both are means over scenarios."""
SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#!|~&])")


def link(server: str, experiment: str, view: str) -> str:
    """Return the address of a view's charts on MLflow's page; ``server`` is the address of the page."""
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={view}&compareRunsMode=CHART"


def describe_experiment(client: Any, experiment: str) -> None:
    """Write the views, the kind and the description of an experiment; what somebody else wrote stays."""
    tags = client.get_experiment(experiment).tags
    newest = ["attributes.start_time DESC"]
    sweeps = client.search_runs([experiment], "tags.level = 'sweep'", max_results=20, order_by=newest)
    note = tags.get(NOTE, "")
    conditions = [name for run in reversed(sweeps) for name in run.data.params.get("conditions", "").split(", ")]
    ours = {TAG + view: text for view, text in views(list(dict.fromkeys(filter(None, conditions)))).items()}
    ours |= {KIND: tags.get(KIND, RUNS_FIRST)}
    if not note or f"viewStateShareKey={MODELS}" in note:
        ours |= {NOTE: "\n".join(_note_lines(sweeps, experiment))}
    for name, text in ours.items():
        if tags.get(name) != text:
            client.set_experiment_tag(experiment, name, text)


def views(conditions: Sequence[str]) -> dict[str, str]:
    """Return the value of each view's tag by its id."""
    scenarios = [f"acc/{name}" for name in SCENARIOS]
    under = _parallel("acc by condition", [f"acc_under/{name}" for name in conditions])
    figures = ["asks", "right_if_asked", "acc", "ps", "loops", "errors", "cost", *scenarios]
    measures = [f"metrics.{name}" for name in figures]
    cell = [f"metrics.{name}" for name in ("asks", "acc", "acc_low", "acc_high", "ps", "loops", "errors", "finished")]
    names = [f"params.{name}" for name in ("model", "scenario", "condition", "kind")]
    bars = [_chart("BAR", name) for name in ("asks", "acc", "loops", "cost")]
    axes = {"xAxisKey": "time-relative", "useGlobalXaxisKey": False, "scaleType": "linear", "yAxisKey": "metric"}
    over_time = [
        _chart("LINE", name, selectedMetricKeys=[name], **axes)
        for name in ("episodes_per_second", "system/gpu_0_utilization_percentage", "acc")
    ]
    by_model = [*bars, under, _parallel("acc by scenario", scenarios)]
    by_sweep = [_chart("BAR", "acc"), _chart("BAR", "best_acc"), *over_time, under]
    sweep_columns = ["tags.best_model", "metrics.best_acc", *measures]
    return {
        MODELS: _view("Models", "model", ["params.kind", "params.sweep", *measures], by_model, "params.`kind`", "kind"),
        SWEEPS: _view("Sweeps side by side", "sweep", sweep_columns, by_sweep),
        CELLS: _view("Cells", "cell", [*names, *cell], bars[:3], group="model"),
    }


def _view(
    name: str,
    level: str,
    columns: list[str],
    charts: list[dict[str, Any]],
    order: str = "metrics.`acc`",
    group: str = "",
) -> str:
    numbered = [
        {**chart, "uuid": f"{level}-{number}", "metricSectionId": "charts", "deleted": False, "isGenerated": False}
        for number, chart in enumerate(charts)
    ]
    names = {"charts": "ProactiveBench", "model": "Model metrics", "system": "System metrics"}
    sections = [
        {"uuid": key, "name": title, "display": key == "charts", "isReordered": True} for key, title in names.items()
    ]
    by = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": group}]} if group else None
    selected = ["{}.`{}`".format(*column.split(".", 1)) for column in columns]
    state = {
        "searchFilter": f"tags.level = '{level}'", "orderByKey": order, "orderByAsc": False,
        "selectedColumns": selected, "columnOrder": ["attributes.`Run Name`", *selected], "compareRunCharts": numbered,
        "compareRunSections": sections, "isAccordionReordered": True, "groupBy": by, "useGroupedValuesInCharts": False,
        "runsHiddenMode": "SHOW_ALL", "hideEmptyCharts": True,
    }  # fmt: skip
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": f"deflate;{packed}"})


def _chart(kind: str, metric: str, **keys: Any) -> dict[str, Any]:
    return {"type": kind, "metricKey": metric, "runsCountToCompare": RUNS_PER_CHART, **keys}


def _parallel(name: str, metrics: list[str]) -> dict[str, Any]:
    shown = {"displayName": name, "selectedParams": [], "selectedMetrics": metrics, "showAllRuns": False}
    return {"type": "PARALLEL", "runsCountToCompare": RUNS_PER_CHART, **shown}


def _note_lines(newest_first: Sequence[Any], experiment: str) -> Iterator[str]:
    """Yield links to the views with the newest answer, then a line per sweep, newest first."""
    answers = [_escape(run.data.tags.get(ANSWER, "")) or "no episodes yet" for run in newest_first]
    yield ", ".join(f"[{name}]({link('', experiment, view)[1:]})" for view, name in VIEWS) + f": {answers[0]}"
    yield f"\n{EXPLANATION}\n"
    for run, answer in zip(newest_first, answers, strict=True):
        name = f"[{_escape(run.info.run_name)}](#/experiments/{experiment}/runs/{run.info.run_id})"
        yield f"- {name}, {run.info.status.lower()}: {answer}"


def _escape(text: str) -> str:
    """Return text of one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))
