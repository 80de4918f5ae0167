"""Cells are scored during the sweep: each change is published once, and nothing after the end."""

from __future__ import annotations

import threading

import polars as pl
import pytest

from orchestrator.execution.score import score_folder
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.tracking import cell_metrics
from orchestrator.tracking.cell_metrics import CellMetricsPublisher, interval
from tests.orchestrator.report.runs import play_sweep, sweep

DEFAULTS = cell_metrics.SCORE_INTERVAL_S, cell_metrics.REST_FACTOR, cell_metrics.POINTS


@pytest.fixture(autouse=True)
def score_at_once(monkeypatch):
    monkeypatch.setattr(cell_metrics, "SCORE_INTERVAL_S", 0.0)
    monkeypatch.setattr(cell_metrics, "REST_FACTOR", 0)
    monkeypatch.setattr(cell_metrics, "POINTS", 1e9)


def frame(**acc: float) -> pl.DataFrame:
    return pl.DataFrame({"cell": list(acc), "acc": list(acc.values())})


def score_once(publisher: CellMetricsPublisher) -> None:
    publisher.publish_if_due()
    assert publisher._thread is not None
    publisher._thread.join(30)


def test_only_changed_cells_are_published():
    frames, published = [frame(a=1.0, b=2.0), frame(a=1.0, b=3.0)], []
    publisher = CellMetricsPublisher(lambda: frames.pop(0), published.append)

    score_once(publisher)
    score_once(publisher)

    assert published == [{"cell": "a", "acc": 1.0}, {"cell": "b", "acc": 2.0}, {"cell": "b", "acc": 3.0}]


def test_score_after_close_is_not_published():
    go, published = threading.Event(), []

    def late():
        go.wait(30)
        return frame(a=1.0)

    publisher = CellMetricsPublisher(late, published.append)
    publisher.publish_if_due()
    publisher.publish_if_due()  # one at a time
    publisher.close()
    go.set()
    publisher._thread.join(30)

    assert published == []


def test_unreadable_folder_is_scored_next_time():
    published, answers = [], [OSError("disk"), pl.exceptions.ComputeError("part"), frame(a=1.0)]

    def rows():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    publisher = CellMetricsPublisher(rows, published.append)
    for _ in range(3):
        score_once(publisher)

    assert published == [{"cell": "a", "acc": 1.0}]


def test_last_published_cells_match_results(demo_data, tmp_path):
    wanted = sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"])
    folder = play_sweep(tmp_path / "run", wanted)
    plan, published = build_plan(wanted), []

    score_once(CellMetricsPublisher(lambda: score_folder(plan, folder, own_judge_key(wanted)), published.append))

    assert published == pl.read_parquet(folder / "results.parquet").drop("gpu_hours", "kwh").to_dicts()


def test_a_sweep_of_days_has_a_chart_of_some_thousand_points():
    points, age = 0, 0.0
    while age < 5 * 86400:
        age += interval(2.0, age)
        points += 1

    assert interval(2.0, 60.0) == 2.0 and 500 < points < 5000
