"""Tokens, cost and GPU-hours of each cell come from the run folder and are null where nothing was measured."""

from __future__ import annotations

import polars as pl
import pytest

from orchestrator.report.read_run import read_run
from orchestrator.report.tables.evidence import cost_table, resources
from orchestrator.report.tables.table import MISSING
from orchestrator.scheduling.forecast.throughput import EPISODES, ObservedRate, add_observed
from orchestrator.storage import reused
from tests.orchestrator.report.runs import write_published_run

MODELS = ["qwen2.5-vl-7b", "qwen2.5-vl-72b"]


@pytest.fixture
def folder(tmp_path):
    return write_published_run(tmp_path / "run", MODELS, most=4, scenarios=["ROD", "QD"])


def test_gpu_hours_are_split_by_episode_seconds(folder):
    add_observed(folder, "H200", {EPISODES: {MODELS[0]: ObservedRate(24, 3600.0), MODELS[1]: ObservedRate(24, 1800.0)}})
    rows = resources(run := read_run(folder))

    gpus = {model.name: model.gpus for model in run.sweep.models}
    hours = dict(rows.group_by("model").agg(pl.col("gpu_hours").sum()).iter_rows())
    assert hours == {MODELS[0]: pytest.approx(gpus[MODELS[0]]), MODELS[1]: pytest.approx(0.5 * gpus[MODELS[1]])}
    assert rows["gpu_hours"].n_unique() == 2, "episodes of equal seconds take equal shares"
    assert {row[0].text: row[4].text for row in cost_table(run).rows} == {
        model: f"{h:,.3f}" for model, h in hours.items()
    }


def test_unread_resources_are_null_not_zero(folder):
    rows = resources(run := read_run(folder))
    assert rows["gpu_hours"].null_count() == rows.height
    assert {row[4].text for row in cost_table(run).rows} == {MISSING.text}
    (folder / "rates.json").write_text('{"gpu": 3}')
    assert resources(read_run(folder))["gpu_hours"].null_count() == rows.height


def test_reused_episodes_cost_nothing(folder):
    run = read_run(folder)
    reused_rows = run.episodes.filter(scenario="ROD").select("key", pl.lit(None, pl.String).alias("judge"), "cell")
    reused.record_reused(folder, reused_rows.with_columns(folder=pl.lit("old"), taken=pl.lit("2026-11-22")))
    rows = resources(read_run(folder))
    assert rows.filter(scenario="ROD").select("played", "prompt_tokens", "cost").sum().row(0) == (0, 0, 0.0)
    assert (
        rows["reused"].sum() == reused_rows.height and rows["played"].sum() == run.episodes.height - reused_rows.height
    )
