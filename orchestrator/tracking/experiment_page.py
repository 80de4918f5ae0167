"""MLflow's page of an experiment: its description, and saved views, which are a filter, an order, columns and charts.

Views are tags of the experiment, as the page's own *Save view* button writes them. MLflow 3.17 opens one by the id in the
address; an older MLflow shows its usual page.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
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
MAX_SWEEPS = 20
SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#!|~&])")


def link(server: str, experiment: str, view: str) -> str:
    """Return the address of a view's charts on MLflow's page; ``server`` is the address of the page."""
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={view}&compareRunsMode=CHART"


def describe_experiment(client: Any, experiment: str) -> None:
    """Write the views, the kind and the description of an experiment; what somebody else wrote stays."""
    tags = client.get_experiment(experiment).tags
    sweeps = client.search_runs([experiment], "tags.level = 'sweep'", max_results=MAX_SWEEPS)
    note = tags.get(NOTE, "")
    ours = {TAG + view: text for view, text in views(_conditions(sweeps)).items()}
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
    measures = ["asks", "right_if_asked", "acc", "ps", "loops", "errors", "cost"]
    cell = ["asks", "acc", "acc_low", "acc_high", "ps", "loops", "errors", "finished"]
    bars = [_bar("asks"), _bar("acc"), _scatter("ps", "acc")]
    by_scenario = _parallel("acc by scenario", scenarios)
    over_time = [_line("episodes_per_second"), _line("system/gpu_0_utilization_percentage"), _line("acc")]
    by_model = [*bars, under, by_scenario, _bar("loops"), _bar("cost")]
    by_sweep = [_bar("acc"), _bar("best_acc"), *over_time, under]
    names = [f"params.{name}" for name in ("model", "scenario", "condition", "kind")]
    columns = _metrics([*measures, *scenarios])
    return {
        MODELS: _view("Models", "model", ["params.kind", "params.sweep", *columns], by_model, "params.`kind`", "kind"),
        SWEEPS: _view("Sweeps side by side", "sweep", ["tags.best_model", "metrics.best_acc", *columns], by_sweep),
        CELLS: _view("Cells", "cell", [*names, *_metrics(cell)], [*bars, _bar("loops")], group="model"),
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


def _metrics(names: Iterable[str]) -> list[str]:
    return [f"metrics.{name}" for name in names]


def _bar(metric: str) -> dict[str, Any]:
    return {"type": "BAR", "metricKey": metric, "runsCountToCompare": RUNS_PER_CHART}


def _line(metric: str) -> dict[str, Any]:
    return {
        "type": "LINE", "metricKey": metric, "selectedMetricKeys": [metric], "runsCountToCompare": RUNS_PER_CHART,
        "xAxisKey": "time-relative", "useGlobalXaxisKey": False, "scaleType": "linear", "yAxisKey": "metric",
    }  # fmt: skip


def _scatter(x: str, y: str) -> dict[str, Any]:
    axes = {"xaxis": {"key": x, "type": "METRIC"}, "yaxis": {"key": y, "type": "METRIC"}}
    return {"type": "SCATTER", "runsCountToCompare": RUNS_PER_CHART, **axes}


def _parallel(name: str, metrics: list[str]) -> dict[str, Any]:
    return {
        "type": "PARALLEL", "displayName": name, "selectedParams": [], "selectedMetrics": metrics,
        "runsCountToCompare": RUNS_PER_CHART, "showAllRuns": False,
    }  # fmt: skip


def _conditions(sweeps: Iterable[Any]) -> list[str]:
    """Return the conditions of these sweeps' runs, the oldest sweep's first."""
    oldest_first = sorted(sweeps, key=lambda run: run.info.start_time)
    names = (name for run in oldest_first for name in run.data.params.get("conditions", "").split(", ") if name)
    return list(dict.fromkeys(names))


def _note_lines(sweeps: Iterable[Any], experiment: str) -> Iterator[str]:
    """Yield links to the views with the newest answer, then a line per sweep, newest first."""
    newest_first = sorted(sweeps, key=lambda run: -run.info.start_time)
    answers = [_escape(run.data.tags.get(ANSWER, "")) or "no episodes yet" for run in newest_first]
    yield ", ".join(f"[{name}]({link('', experiment, view)[1:]})" for view, name in VIEWS) + f": {answers[0]}"
    yield f"\n{EXPLANATION}\n"
    for run, answer in zip(newest_first, answers, strict=True):
        name = f"[{_escape(run.info.run_name)}](#/experiments/{experiment}/runs/{run.info.run_id})"
        yield f"- {name}, {run.info.status.lower()}: {answer}"


def _escape(text: str) -> str:
    """Return text of one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))
