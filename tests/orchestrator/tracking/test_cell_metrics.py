"""A look at the cells runs beside the sweep: it tells what changed, once, and nothing any more when the end has come."""

from __future__ import annotations

import threading

import polars as pl
import pytest

from orchestrator.execution.attempt import scored
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.judge_agreement import own
from orchestrator.tracking import cell_metrics
from orchestrator.tracking.cell_metrics import CellMetricsPublisher, paced
from tests.orchestrator.mirrors import until
from tests.orchestrator.report.runs import played, sweep


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(cell_metrics, "SCORE_INTERVAL_S", 0.0)
    monkeypatch.setattr(cell_metrics, "SHARE", 0)
    monkeypatch.setattr(cell_metrics, "LOOKS", 1e9)


def frame(**acc: float) -> pl.DataFrame:
    return pl.DataFrame({"cell": list(acc), "acc": list(acc.values())})


def looked(one: CellMetricsPublisher) -> None:
    one.look()
    assert one._thread is not None
    one._thread.join(30)


def test_only_what_changed_is_told():
    frames, told = [frame(a=1.0, b=2.0), frame(a=1.0, b=3.0)], []
    one = CellMetricsPublisher(lambda: frames.pop(0), told.append)

    looked(one)
    looked(one)

    assert told == [{"cell": "a", "acc": 1.0}, {"cell": "b", "acc": 2.0}, {"cell": "b", "acc": 3.0}]


def test_a_look_that_comes_after_the_end_tells_nothing():
    go, told = threading.Event(), []

    def late():
        go.wait(30)
        return frame(a=1.0)

    one = CellMetricsPublisher(late, told.append)
    one.look()
    one.look()  # one at a time
    one.close()
    go.set()
    one._thread.join(30)

    assert told == []


def test_a_folder_that_cannot_be_read_now_is_read_next_time():
    told, answers = [], [OSError("disk"), pl.exceptions.ComputeError("part"), frame(a=1.0)]

    def rows():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    one = CellMetricsPublisher(rows, told.append)
    for _ in range(3):
        looked(one)

    assert told == [{"cell": "a", "acc": 1.0}]


def test_what_is_told_at_last_is_what_the_results_say(demo_data, tmp_path):
    wanted = sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"])
    folder = played(tmp_path / "run", wanted)
    plan, told = build_plan(wanted), []

    looked(CellMetricsPublisher(lambda: scored(plan, folder, own(wanted)), told.append))

    assert told == pl.read_parquet(folder / "results.parquet").to_dicts()


def test_a_look_is_rarer_the_longer_it_takes(monkeypatch):
    monkeypatch.setattr(cell_metrics, "SHARE", 1000)
    calls = []

    def slow():
        calls.append(1)
        threading.Event().wait(0.05)
        return frame(a=1.0)

    one = CellMetricsPublisher(slow, lambda row: None)
    looked(one)
    one.look()
    until(lambda: not one._thread.is_alive())

    assert calls == [1]


def test_a_sweep_of_days_has_a_chart_of_some_thousand_points():
    points, age = 0, 0.0
    while age < 5 * 86400:
        age += paced(2.0, age)
        points += 1

    assert paced(2.0, 60.0) == 2.0 and 500 < points < 5000
