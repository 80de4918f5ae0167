"""Table 3 of a run whose episodes were played by policies instead of models, so that every figure is known."""

from dataclasses import replace

import polars as pl
import pytest
import tomli_w

from actors.engine.baselines import Baseline
from orchestrator.report.read_run import read_run
from proactive_learn import table
from proactive_learn.run_files import claim, model_entry
from proactive_learn.settings import train_table
from sweeps.load import load
from sweeps.sweep_file import read_toml
from tests.orchestrator.report.runs import play_sweep

BASE = {"name": "base", "source": "nobody/nothing", "backend": "transformers", "gpus": 0, "paper": "Qwen2.5-VL-3B"}


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    """``abstain`` plays the model before, ``oracle`` the model after."""
    folder = tmp_path_factory.mktemp("learning") / "rp-0.75"
    (folder / "adapter-0").mkdir(parents=True)
    file = folder / "x.toml"
    wanted = {"data": str(demo_data), "models": ["base"], "conditions": ["zero-shot", "reference"], "model": [BASE]}
    file.write_text(tomli_w.dumps(wanted))
    train = train_table({"model": [BASE], "train": {"model": "base", "data": "d", "rp": 0.75}}, "x.toml")
    claim(folder, train)
    (folder / "model.toml").write_text(tomli_w.dumps({"model": [model_entry(folder, train, folder / "adapter-0")]}))
    engines = {"base": Baseline("abstain"), "base-rp-0.75": Baseline("oracle")}
    return read_run(
        play_sweep(folder / "run", load(file, [], read_toml(folder / "model.toml")["model"]), backends=engines)
    )


def test_scores_are_before_after_and_reference(run):
    stages = table.learning_tables(run)[0].numbers

    assert stages["stage"].unique(maintain_order=True).to_list() == ["before", "rp 0.75, base-rp-0.75", "reference"]
    assert set(stages.filter(stage="before")["acc"]) == {0.0} and stages.height == 21
    assert set(stages.filter(stage="rp 0.75, base-rp-0.75")["acc"]) == {100.0}


def test_an_average_waits_for_pending_episodes_and_not_for_refused_ones(run):
    first = pl.col("sample_id") == pl.col("sample_id").min().over("cell")
    refused = pl.when(first).then(pl.lit("refused")).otherwise("ending").alias("ending")
    half, whole = run.episodes.filter(~first), run.episodes.with_columns(refused)
    averages = [
        [row[-1].text for row in table.learning_tables(replace(run, episodes=stored))[0].rows]
        for stored in (half, whole)
    ]

    assert averages[0] == ["unfinished"] * 3 and "unfinished" not in averages[1]


def test_changes_are_paired_and_grouped_by_what_was_trained(run):
    changes = {row["scenarios"]: row for row in table.learning_tables(run)[-1].numbers.iter_rows(named=True)}

    assert {name: row["n"] for name, row in changes.items()} == {"trained": 20, "unseen": 50}
    for row in changes.values():
        assert row["difference"] == 100 and 0 < row["low"] < 100 == row["high"]
