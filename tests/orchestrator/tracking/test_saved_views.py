"""Saved views are in the words of MLflow's own page: the page ignores a key that it does not know, without a message."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs import SCENARIOS
from orchestrator.tracking.mlflow import saved_views
from orchestrator.tracking.mlflow.saved_views import CELLS, DEFLATE, MODELS, SWEEPS, encode_view, views

mlflow = pytest.importorskip("mlflow")
SCRIPTS = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"
CHOICES = {"SHOW_ALL", "time-relative", "linear", "average", "BAR", "LINE", "SCATTER", "PARALLEL", "METRIC", "param"}


@pytest.fixture(scope="module")
def words() -> set[str]:
    """All words in the scripts of MLflow's page of runs."""
    texts = [path.read_text() for path in SCRIPTS.glob("*.js")]
    return {word for text in texts if "compareRunCharts" in text for word in re.findall(r"[\w-]+", text)}


def keys(value: Any) -> Iterator[str]:
    """Yield every key of a state, at any depth."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys(inner)
    yield from value if isinstance(value, dict) else ()


def strings(value: Any) -> Iterator[str]:
    """Yield every text of a state, at any depth."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


@pytest.mark.parametrize("view", [MODELS, SWEEPS, CELLS])
def test_mlflows_page_knows_every_key_and_choice(view, words):
    _, state = views(["zero-shot", "hint"])[view]

    assert set(keys(state)) <= words
    assert set(json.loads(encode_view("x", state))) <= words
    chosen = set(strings(state)) & CHOICES
    assert chosen <= words and {"SHOW_ALL", "BAR"} <= chosen
    unknown = {text for text in strings(state) if text.isupper()} - CHOICES - SCENARIOS.keys()
    assert not unknown


def test_a_view_is_read_back_and_anything_else_is_empty():
    _, state = views(["hint"])[MODELS]
    tag = encode_view("Models", state)

    assert json.loads(tag)["name"] == "Models" and json.loads(tag)["state"].startswith(DEFLATE)
    assert saved_views._state(tag) == state and saved_views._charted_conditions(tag) == ["hint"]
    for other in ("", "{}", "[]", '{"state": "deflate;x"}', json.dumps({"state": 3})):
        assert saved_views._state(other) == {} and saved_views._charted_conditions(other) == []


def test_columns_and_charts_name_only_what_the_tracker_sends():
    measures = {"acc", "ps", "loops", "errors", "cost", "best_acc", "acc_low", "acc_high", "finished"}
    measures |= {"episodes_per_second", "system/gpu_0_utilization_percentage", "acc_under/hint"}
    measures |= {f"acc/{name}" for name in SCENARIOS}
    sent = {f"metrics.`{name}`" for name in measures} | {"tags.`best_model`"}
    sent |= {f"params.`{name}`" for name in ("kind", "sweep", "model", "scenario", "condition")}

    for _, state in views(["hint"]).values():
        assert set(state["selectedColumns"]) <= sent
        for chart in state["compareRunCharts"]:
            axes = [chart[axis]["key"] for axis in ("xaxis", "yaxis") if axis in chart]
            names = [chart["metricKey"]] if "metricKey" in chart else chart.get("selectedMetrics", axes)
            assert names and set(names) <= measures | {"asks"}
