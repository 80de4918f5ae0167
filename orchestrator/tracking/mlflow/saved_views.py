"""Saved views of MLflow's page of runs: the tags of an experiment that its own *Save view* button writes.

A view is a filter, an order, columns and charts. MLflow 3.17 lists views under *Saved views* and opens one by the id in the
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
DEFLATE = "deflate;"
"""Prefix of a state that is compressed (zlib) and in base64."""
MODELS, SWEEPS, CELLS = "proactive-sweep-models", "proactive-sweep-sweeps", "proactive-sweep-cells"
"""Ids of the views."""
MAX_STATE_BYTES = 1 << 20
RUNS_PER_CHART = 50


def link(server: str, experiment: str, view: str) -> str:
    """Return the address of a view on MLflow's page; ``server`` is the address of the page."""
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={view}"


def send(client: Any, experiment: str, conditions: Sequence[str]) -> None:
    """Write the views that are missing or outdated; conditions of other sweeps of the experiment stay in the charts."""
    tags = client.get_experiment(experiment).tags
    all_conditions = list(dict.fromkeys([*_charted_conditions(tags.get(TAG + MODELS, "")), *conditions]))
    for view, (name, state) in views(all_conditions).items():
        if _state(tags.get(TAG + view, "")) != state:
            client.set_experiment_tag(experiment, TAG + view, encode_view(name, state))


def views(conditions: Sequence[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return name and state of each view by its id."""
    scenarios = [f"acc/{name}" for name in SCENARIOS]
    under = [f"acc_under/{name}" for name in conditions]
    measures = ["acc", "ps", "loops", "errors", "cost"]
    return {
        MODELS: (
            "Models",
            _view("model", ["params.kind", "params.sweep", *_metrics(measures), *_metrics(scenarios)], [
                _bar("acc"), _bar("asks"), _scatter("ps", "acc"), _parallel("acc by condition", under),
                _parallel("acc by scenario", scenarios), _bar("loops"), _bar("cost"),
            ], group="kind"),
        ),
        SWEEPS: (
            "Sweeps side by side",
            _view("sweep", ["tags.best_model", *_metrics(["best_acc", *measures]), *_metrics(scenarios)], [
                _bar("acc"), _bar("best_acc"), _line("episodes_per_second"), _line("system/gpu_0_utilization_percentage"),
                _line("acc"), _parallel("acc by condition", under),
            ]),
        ),
        CELLS: (
            "Cells",
            _view("cell", ["params.model", "params.scenario", "params.condition", "params.kind",
                           *_metrics(["acc", "acc_low", "acc_high", "ps", "loops", "errors", "finished"])],
                  [_bar("acc"), _scatter("ps", "acc"), _bar("loops")], group="model"),
        ),
    }  # fmt: skip


def encode_view(name: str, state: dict[str, Any]) -> str:
    """Return the value of a view's tag."""
    packed = DEFLATE + base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()
    return json.dumps({"name": name, "createdAt": 0, "updatedAt": 0, "state": packed})


def _view(level: str, columns: list[str], charts: list[dict[str, Any]], group: str = "") -> dict[str, Any]:
    for number, chart in enumerate(charts):
        chart |= {"uuid": f"{level}-{number}", "metricSectionId": "charts", "deleted": False, "isGenerated": False}
    names = {"charts": "ProactiveBench", "model": "Model metrics", "system": "System metrics"}
    sections = [
        {"uuid": key, "name": name, "display": key == "charts", "isReordered": True} for key, name in names.items()
    ]
    by = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": group}]} if group else None
    selected = [_quote(column) for column in columns]
    return {
        "searchFilter": f"tags.level = '{level}'", "orderByKey": "metrics.`acc`", "orderByAsc": False,
        "selectedColumns": selected, "columnOrder": ["attributes.`Run Name`", *selected], "compareRunCharts": charts,
        "compareRunSections": sections, "isAccordionReordered": True, "groupBy": by, "useGroupedValuesInCharts": False,
        "runsHiddenMode": "SHOW_ALL", "hideEmptyCharts": True,
    }  # fmt: skip


def _metrics(names: Iterable[str]) -> list[str]:
    return [f"metrics.{name}" for name in names]


def _quote(column: str) -> str:
    kind, _, name = column.partition(".")
    return f"{kind}.`{name}`"


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


def _state(tag: str) -> dict[str, Any]:
    """Return the state in a tag's value; empty for a value that another program wrote."""
    try:
        packed = json.loads(tag)["state"].removeprefix(DEFLATE)
        state = json.loads(zlib.decompressobj().decompress(base64.b64decode(packed), MAX_STATE_BYTES))
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def _charted_conditions(tag: str) -> list[str]:
    """Return the conditions in the charts of the view of models."""
    try:
        charts = _state(tag).get("compareRunCharts", [])
        names = [str(name) for chart in charts for name in chart.get("selectedMetrics", ())]
    except (TypeError, AttributeError):
        return []
    return [name.removeprefix("acc_under/") for name in names if name.startswith("acc_under/")]


KIND, RUNS_FIRST = "mlflow.experimentKind", "custom_model_development"
"""Tag and value with which MLflow shows runs first."""
NOTE = "mlflow.note.content"
VIEWS = ((MODELS, "models"), (SWEEPS, "sweeps side by side"), (CELLS, "cells"))
EXPLANATION = """Models see pictures that do not show enough, and may ask for more (ProactiveBench). `acc` is the percentage of
right answers, the mean over scenarios; `mean acc` is over all models without baselines."""
MAX_SWEEPS = 20
SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#!|~&])")


def describe_experiment(client: Any, experiment: str) -> None:
    """Write the kind and the description of an experiment. May raise any error of MLflow."""
    tags = client.get_experiment(experiment).tags
    if KIND not in tags:
        client.set_experiment_tag(experiment, KIND, RUNS_FIRST)
    before = tags.get(NOTE, "")
    note = "\n".join(_note_lines(client, experiment))
    if note != before and (not before or link("", experiment, MODELS)[1:] in before):
        client.set_experiment_tag(experiment, NOTE, note)


def _note_lines(client: Any, experiment: str) -> Iterator[str]:
    runs = client.search_runs([experiment], "tags.level = 'sweep'", max_results=MAX_SWEEPS)
    scored = [run for run in runs if "best_acc" in run.data.metrics and "best_model" in run.data.tags]
    best = max(scored, key=lambda run: run.data.metrics["best_acc"], default=None)
    first = f"best acc {best.data.metrics['best_acc']:.1f}, {_escape(best.data.tags['best_model'])}; " if best else ""
    yield first + "tables: " + ", ".join(f"[{name}]({link('', experiment, view)[1:]})" for view, name in VIEWS)
    yield ""
    yield EXPLANATION
    yield ""
    yield "| sweep | best model | acc | mean acc | status |"
    yield "| --- | --- | --- | --- | --- |"
    for run in sorted(runs, key=lambda run: -run.info.start_time):
        yield _sweep_line(run, experiment)


def _sweep_line(run: Any, experiment: str) -> str:
    metrics = run.data.metrics
    best, acc = (f"{metrics[name]:.1f}" if name in metrics else "-" for name in ("best_acc", "acc"))
    name = f"[{_escape(run.info.run_name)}](#/experiments/{experiment}/runs/{run.info.run_id})"
    return f"| {name} | {_escape(run.data.tags.get('best_model', '-'))} | {best} | {acc} | {run.info.status.lower()} |"


def _escape(text: str) -> str:
    """Return text of one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))
