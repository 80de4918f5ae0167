"""MLflow's page of an experiment: its description, and saved views, which are a filter, an order, columns and charts.

Views are tags of the experiment, as the page's own *Save view* button writes them. MLflow 3.17 opens one by the id in the
address; an older MLflow shows its usual page.
"""

import base64
import json
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envs import SCENARIOS

TAG = "mlflow.sharedViewState."
"""Prefix of a view's id in an experiment's tag; the value is ``{"name", "createdAt", "updatedAt", "state"}``."""
MODELS = "proactive-sweep-models"
"""Id of the view that links open."""
KIND, RUNS_FIRST = "mlflow.experimentKind", "custom_model_development"
"""Tag and value with which MLflow shows runs first."""
NOTE = "mlflow.note.content"
ANSWER = "answer"
"""Tag of a sweep's run: the sentences on whether its models ask."""
PAGE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("views.toml").read_text("utf-8"))
"""The views, and the descriptions of an experiment and of a sweep's run."""
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
    return {view["id"]: _pack(view, conditions) for view in PAGE["view"]}


def _pack(view: Mapping[str, Any], conditions: Sequence[str]) -> str:
    """Return a view in the form in which MLflow stores it."""
    level = view["level"]
    charts = [PAGE["chart"][chart["type"]] | chart for chart in view["charts"]]
    for number, chart in enumerate(charts):
        lists = {key: _expand(value, conditions) for key, value in chart.items() if isinstance(value, list)}
        chart |= {**lists, "uuid": f"{level}-{number}"}
    columns = ["{}.`{}`".format(*name.split(".", 1)) for name in _expand(view["columns"], conditions)]
    keys = [{"mode": "param", "groupByData": name} for name in view["group"]]
    state = PAGE["state"] | {
        "searchFilter": f"tags.level = '{level}'", "orderByKey": view["order"], "selectedColumns": columns,
        "columnOrder": ["attributes.`Run Name`", *columns], "compareRunCharts": charts,
        "groupBy": {"aggregateFunction": "average", "groupByKeys": keys} if keys else None,
    }  # fmt: skip
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()
    return json.dumps({"name": view["name"], "createdAt": 0, "updatedAt": 0, "state": f"deflate;{packed}"})


def _expand(names: Sequence[str], conditions: Sequence[str]) -> list[str]:
    """Return the names with one per scenario for ``{scenario}``, and one per condition for ``{condition}``."""
    ends = {"scenario}": SCENARIOS, "condition}": conditions}
    parts = [name.partition("{") for name in names]
    return [start + end for start, _, kind in parts for end in ends.get(kind, ("",))]


def _note_lines(newest_first: Sequence[Any], experiment: str) -> Iterator[str]:
    """Yield links to the views with the newest answer, then a line per sweep, newest first."""
    answers = [_escape(run.data.tags.get(ANSWER, "")) or "no episodes yet" for run in newest_first]
    links = [f"[{view['link']}]({link('', experiment, view['id'])[1:]})" for view in PAGE["view"]]
    yield f"{', '.join(links)}: {answers[0]}"
    yield f"\n{PAGE['explanation']}\n"
    for run, answer in zip(newest_first, answers, strict=True):
        name = f"[{_escape(run.info.run_name)}](#/experiments/{experiment}/runs/{run.info.run_id})"
        yield f"- {name}, {run.info.status.lower()}: {answer}"


def _escape(text: str) -> str:
    """Return text of one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))
