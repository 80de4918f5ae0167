"""Tokens, cost and GPU-hours of each cell come from the run folder and are null where nothing was measured."""

from __future__ import annotations

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from orchestrator.report.html.summary import list_facts
from orchestrator.report.measures.resources import describe_resources, resources
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.cell_resources import add_resources
from orchestrator.report.scores.metrics import write_results
from orchestrator.report.tables.all_tables import write_tables
from orchestrator.report.tables.evidence import cost_table
from orchestrator.report.tables.table import MISSING
from orchestrator.scheduling.forecast.throughput import EPISODES, ObservedRate, add_observed
from orchestrator.storage import reused
from tests.orchestrator.report.runs import play_sweep, replace_part, sweep, write_published_run

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
    assert rows["prompt_tokens"].sum() == run.episodes["prompt_tokens"].sum()
    tokens = run.episodes["prompt_tokens"].sum() + run.episodes["reply_tokens"].sum()
    assert describe_resources(run) == f"{rows['gpu_hours'].sum():,.1f} GPU-hours, {tokens:,} tokens"
    assert dict(list_facts(run))["Cost"] == describe_resources(run)
    assert any(path.name == "resources.csv" for path in write_tables(run))

    columns = "cell", "gpu_hours"
    assert run.rows.select(columns).sort("cell").equals(rows.select(columns).sort("cell")), "results equal the table"
    page = cost_table(run)
    shown = {row[0].text: row[4].text for row in page.rows}
    sums = rows.group_by("model").agg(pl.col("gpu_hours").sum()).sort("model")
    assert shown == {model: f"{total:,.3f}" for model, total in sums.iter_rows()}


def test_unread_resources_are_null_not_zero(folder):
    rows = resources(run := read_run(folder))
    assert rows["gpu_hours"].null_count() == rows.height
    assert {row[4].text for row in cost_table(run).rows} <= {MISSING.text}
    (folder / "rates.json").write_text('{"gpu": 3}')
    assert resources(read_run(folder))["gpu_hours"].null_count() == rows.height


def test_cache_shares_count_only_reported_tokens_and_pictures(folder):
    for path in (folder / "episodes").glob("*.parquet"):
        rows, is_first_model = pl.read_parquet(path), pl.col("model") == MODELS[0]
        counts = {"cached_tokens": 0.75 * pl.col("prompt_tokens"), "pictures": 4, "cached_pictures": 1}
        replace_part(
            rows.with_columns(pl.col("prompt_tokens") * 100).with_columns(
                pl.when(is_first_model).then(count).cast(rows.schema[name]).alias(name)
                for name, count in counts.items()
            ),
            path,
        )
    rows = resources(run := read_run(folder))
    first_rows, second_rows = rows.filter(model=MODELS[0]), rows.filter(model=MODELS[1])

    assert set(first_rows["prompt_cached"]) == {75.0} and set(first_rows["pictures_cached"]) == {25.0}
    null_counts = second_rows.select(pl.col("prompt_cached", "pictures_cached").null_count()).row(0)
    assert null_counts == (second_rows.height, second_rows.height) and second_rows.height > 0
    sentence = "75% of prompt tokens from the engine's cache, 25% of pictures preprocessed before"
    assert sentence in describe_resources(run)
    assert set(run.rows.filter(model=MODELS[0])["prompt_cached"]) == {75.0}


def test_reused_episodes_cost_nothing(folder):
    run = read_run(folder)
    reused_rows = run.episodes.filter(scenario="ROD").select("key", pl.lit(None, pl.String).alias("judge"), "cell")
    reused.record_reused(folder, reused_rows.with_columns(folder=pl.lit("old"), taken=pl.lit("2026-11-22")))
    rows = resources(read_run(folder))
    assert rows.filter(scenario="ROD").select("played", "prompt_tokens", "cost").sum().row(0) == (0, 0, 0.0)
    assert (
        rows["reused"].sum() == reused_rows.height and rows["played"].sum() == run.episodes.height - reused_rows.height
    )
    assert describe_resources(read_run(folder)).endswith(
        f" tokens, {reused_rows.height} episodes taken over from other runs"
    )


def test_results_json_leaves_out_run_dependent_figures(demo_data, tmp_path):
    folders = [play_sweep(tmp_path / name, sweep(demo_data, ["uniform"], ["hint"], scenarios=["ROD"])) for name in "ab"]
    add_observed(folders[1], "H200", {EPISODES: {"uniform": ObservedRate(10, 3600.0)}})
    rows = read_run(folders[1]).rows
    write_results(folders[1], rows)

    assert (folders[0] / "results.json").read_bytes() == (folders[1] / "results.json").read_bytes()
    results = pl.read_parquet(folders[1] / "results.parquet")
    assert {"cost", "gpu_hours"} <= set(results.columns) and results["gpu_hours"].null_count() == 1


def test_replicates_take_their_share_of_a_models_gpu_hours(demo_data, tmp_path):
    model = {"name": "m", "source": "x", "backend": "vllm", "gpus": 2}
    replicated = sweep(demo_data, ["m"], ["hint"], scenarios=["ROD"], model=[model], replicates=2)
    folder = play_sweep(tmp_path / "run", replicated, backends={"m": Baseline("uniform")})
    add_observed(folder, "H200", {EPISODES: {"m": ObservedRate(30, 3600.0)}})
    rows = add_resources(pl.read_parquet(folder / "results.parquet").drop("gpu_hours"), folder, replicated)

    assert rows.height == 2 and rows["gpu_hours"].sum() == pytest.approx(2.0)
    (first_hours,) = read_run(folder).rows["gpu_hours"]
    assert 0 < first_hours < 2.0
