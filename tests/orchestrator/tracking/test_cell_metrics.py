"""Cells are scored beside the sweep: what changed is published once, and nothing after the end has come."""

from __future__ import annotations

import threading

import polars as pl
import pytest

from orchestrator.execution.results import score_folder
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.tracking import cell_metrics
from orchestrator.tracking.cell_metrics import CellMetricsPublisher, interval
from tests.orchestrator.mlflow_stores import until
from tests.orchestrator.report.runs import played, sweep


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(cell_metrics, "SCORE_INTERVAL_S", 0.0)
    monkeypatch.setattr(cell_metrics, "REST_FACTOR", 0)
    monkeypatch.setattr(cell_metrics, "POINTS", 1e9)


def frame(**acc: float) -> pl.DataFrame:
    return pl.DataFrame({"cell": list(acc), "acc": list(acc.values())})


def scored_once(one: CellMetricsPublisher) -> None:
    one.publish_if_due()
    assert one._thread is not None
    one._thread.join(30)


def test_only_what_changed_is_told():
    frames, published = [frame(a=1.0, b=2.0), frame(a=1.0, b=3.0)], []
    one = CellMetricsPublisher(lambda: frames.pop(0), published.append)

    scored_once(one)
    scored_once(one)

    assert published == [{"cell": "a", "acc": 1.0}, {"cell": "b", "acc": 2.0}, {"cell": "b", "acc": 3.0}]


def test_a_look_that_comes_after_the_end_tells_nothing():
    go, published = threading.Event(), []

    def late():
        go.wait(30)
        return frame(a=1.0)

    one = CellMetricsPublisher(late, published.append)
    one.publish_if_due()
    one.publish_if_due()  # one at a time
    one.close()
    go.set()
    one._thread.join(30)

    assert published == []


def test_a_folder_that_cannot_be_read_now_is_read_next_time():
    published, answers = [], [OSError("disk"), pl.exceptions.ComputeError("part"), frame(a=1.0)]

    def rows():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    one = CellMetricsPublisher(rows, published.append)
    for _ in range(3):
        scored_once(one)

    assert published == [{"cell": "a", "acc": 1.0}]


def test_what_is_told_at_last_is_what_the_results_say(demo_data, tmp_path):
    wanted = sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"])
    folder = played(tmp_path / "run", wanted)
    plan, published = build_plan(wanted), []

    scored_once(CellMetricsPublisher(lambda: score_folder(plan, folder, own_judge_key(wanted)), published.append))

    assert published == pl.read_parquet(folder / "results.parquet").drop("gpu_hours", "kwh").to_dicts()


def test_a_look_is_rarer_the_longer_it_takes(monkeypatch):
    monkeypatch.setattr(cell_metrics, "REST_FACTOR", 1000)
    calls = []

    def slow():
        calls.append(1)
        threading.Event().wait(0.05)
        return frame(a=1.0)

    one = CellMetricsPublisher(slow, lambda row: None)
    scored_once(one)
    one.publish_if_due()
    until(lambda: not one._thread.is_alive())

    assert calls == [1]


def test_a_sweep_of_days_has_a_chart_of_some_thousand_points():
    points, age = 0, 0.0
    while age < 5 * 86400:
        age += interval(2.0, age)
        points += 1

    assert interval(2.0, 60.0) == 2.0 and 500 < points < 5000
