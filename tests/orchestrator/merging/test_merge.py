"""Merge folders of one plan: each episode is stored once, as in a single run; conflicting answers are named, never chosen."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from actors.trial.certificate import Certificate
from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.gold.labels import BITS, add_labels, read_labels
from orchestrator.inspection.certificate import add_certificate, read_certificates
from orchestrator.merging.merge import merge
from orchestrator.storage import checksums, lock
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.loaded_weights import LoadedWeights
from orchestrator.storage.progress_log import playing_times
from orchestrator.storage.run_folder import planned_keys, stored_sweep
from orchestrator.storage.status import read_status
from orchestrator.storage.verdict_store import verdicts
from tests.orchestrator.report.runs import judge_answers, play_sweep, replace_part, sweep

SCENARIOS = ["ROD", "QD"]


@pytest.fixture
def shared_sweep(demo_data):
    return sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"], scenarios=SCENARIOS)


def rows(folder):
    return episodes(folder).drop("seconds").collect().sort("key"), turns(folder).collect().sort("key", "turn")


def change(folder, key: str, **to) -> None:
    """Replace values of a stored episode, as a different answer would."""
    for part in (folder / "episodes").glob("*.parquet"):
        table = pl.read_parquet(part)
        is_changed = pl.col("key") == key
        columns = {name: pl.when(is_changed).then(pl.lit(value)).otherwise(name) for name, value in to.items()}
        replace_part(table.with_columns(**columns), part)


def test_overlapping_parts_merge_into_one_run(shared_sweep, tmp_path):
    full_run = play_sweep(tmp_path / "whole", shared_sweep)
    first = play_sweep(tmp_path / "one", shared_sweep, only=50)
    second = play_sweep(tmp_path / "two", shared_sweep)
    keys = [row[0] for row in episodes(second).select("key").collect().sort("key").iter_rows()]
    change(second, keys[0], ending="failed", correct=None)
    into = tmp_path / "into"
    outcome = merge([first, second], into)

    merged = episodes(into).collect()
    assert merged["key"].is_unique().all() and merged.height == sum(outcome.taken.values()) == 80
    assert "1 failed episode replaced" in " ".join(outcome.lines())
    assert outcome.taken[str(first)] == 50 and outcome.gave_way == 1 and not outcome.pending and not outcome.conflicts
    assert all(actual.equals(expected) for actual, expected in zip(rows(into), rows(full_run), strict=True))
    assert (into / "results.json").read_bytes() == (full_run / "results.json").read_bytes()
    assert planned_keys(into).collect().equals(planned_keys(full_run).collect())
    assert checksums.damaged_files(into) == [] and read_status(into)["damaged"] == []
    assert {cell["state"] for cell in read_status(into)["cells"]} == {"complete"}
    play_sweep(into, shared_sweep)  # resumes like any run folder: nothing is pending
    assert episodes(into).select(pl.len()).collect().item() == 80


def test_folders_of_different_models_merge(demo_data, tmp_path):
    both, *alone = (
        sweep(demo_data, models, ["hint"], scenarios=SCENARIOS)
        for models in (["oracle", "guess"], ["oracle"], ["guess"])
    )
    parts = {spec.models[0].name: play_sweep(tmp_path / spec.models[0].name, spec) for spec in alone}
    for name, folder in parts.items():
        add_certificate(folder, name, Certificate(source=name, backend="vllm"))
        LoadedWeights(folder).add(stored_sweep(folder).models[0], f"sha256:{name}")
    merge([*parts.values()], tmp_path / "into")
    assert read_certificates(tmp_path / "into").keys() == parts.keys()
    stored_weights = LoadedWeights(tmp_path / "into").models
    assert {name: record["weights"] for name, record in stored_weights.items()} == {
        name: f"sha256:{name}" for name in parts
    }

    assert play_sweep(tmp_path / "into", both) == tmp_path / "into", "it is a run of the sweep that names both"
    merged, played = (folder / "results.json" for folder in (tmp_path / "into", play_sweep(tmp_path / "both", both)))
    assert merged.read_bytes() == played.read_bytes()


def test_conflicting_answers_are_named_and_need_prefer(shared_sweep, tmp_path):
    first, second = (play_sweep(tmp_path / name, shared_sweep) for name in ("one", "two"))
    keys = episodes(second).select("key").collect()["key"].sort().to_list()
    change(second, keys[3], ending="limit")
    for part in (second / "turns").glob("*.parquet"):
        reply = pl.when(pl.col("key") == keys[5]).then(pl.lit("else")).otherwise("reply")
        replace_part(pl.read_parquet(part).with_columns(reply=reply), part)
    into = tmp_path / "into"

    with pytest.raises(RunFolderError) as refused:
        merge([first, second], into)
    assert all(text in str(refused.value) for text in ("2 episodes", keys[3], keys[5], "--prefer"))
    assert not into.exists()
    for target, prefer in ((tmp_path / "a", first), (tmp_path / "b", second)):
        merge([first, second], target, prefer)
        assert all(actual.equals(expected) for actual, expected in zip(rows(target), rows(prefer), strict=True))
        record = json.loads((target / "merged.json").read_bytes())
        assert (record["prefer"], record["conflicts"]) == (str(prefer), {"episode": [keys[3], keys[5]]})


def test_other_configurations_are_refused(demo_data, shared_sweep, tmp_path):
    other = sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"], scenarios=SCENARIOS, seed=4)
    folders = [play_sweep(tmp_path / str(spec.seed), spec, only=4) for spec in (shared_sweep, other)]
    with pytest.raises(RunFolderError, match="seed was 0, there it is 4"):
        merge(folders, tmp_path / "into")


def test_invalid_merge_is_refused(shared_sweep, tmp_path):
    first = play_sweep(tmp_path / "one", shared_sweep, only=4)
    second = shutil.copytree(first, tmp_path / "two")
    runner = CliRunner()

    for arguments, message in (
        ([first, "--output", tmp_path / "x"], "merge needs two or more folders"),
        ([first, first, "--output", tmp_path / "x"], "named twice"),
        ([first, second, "--output", second], "has a run already"),
        ([first, second, "--output", tmp_path / "x", "--prefer", "y"], "not one of the merged folders"),
        ([first, tmp_path / "none", "--output", tmp_path / "x"], "holds no run"),
    ):
        refusal = runner.invoke(app, ["merge", *map(str, arguments)])
        assert refusal.exit_code == 2 and message in refusal.output.replace("\n", " "), refusal.output
    with lock.hold(second), pytest.raises(RunFolderError, match="is being written"):
        merge([first, second], tmp_path / "x")
    assert not (tmp_path / "x" / "episodes").exists()
    done = runner.invoke(app, ["merge", f"{first}", f"{second}", "--output", f"{tmp_path}/x", "--prefer", f"{second}/"])
    assert (done.exit_code, done.output.splitlines()[0]) == (0, f"0 episodes from {first}")


def test_merged_answers_keep_their_verdicts(demo_data, tmp_path):
    options = {"protocol": ["oeg"], "judge": {"model": "rule-judge"}, "scenarios": SCENARIOS}
    shared_sweep = sweep(demo_data, ["ask-properly", "guess-aloud"], ["zero-shot"], **options)
    full_run, first, second = (
        play_sweep(tmp_path / name, shared_sweep, only=only) for name, only in (("w", None), ("1", 24), ("2", None))
    )
    for folder in (full_run, first, second):
        judge_answers(folder, shared_sweep, shared_sweep.judge, Baseline("rule-judge"))
        shutil.copytree(folder / "verdicts", folder / "gold/verdicts")
    labels = verdicts(second).select("key", *BITS, "aggregate", drawn=pl.lit("")).collect().sort("key")
    labeled_twice = verdicts(first).select("key").collect()["key"].min()
    add_labels(second, labels)
    add_labels(first, labels.filter(key=labeled_twice).with_columns(~pl.col("category")))
    merge([first, second], tmp_path / "into")
    merge([first, second], tmp_path / "preferred", second)
    assert read_labels(tmp_path / "preferred").equals(labels)
    kept = read_labels(tmp_path / "into").join(labels, on=["key", *BITS], how="anti")
    assert kept["key"].to_list() == [labeled_twice], "the first folder's label counts"
    assert verdicts(tmp_path / "into/gold").collect().height == 40
    columns = ["key", "judge", "category", "suggestion", "aggregate", "reason"]
    merged = verdicts(tmp_path / "into").select(columns).collect().sort("key")

    assert merged.height == 40 and merged.equals(verdicts(full_run).select(columns).collect().sort("key"))
    (part,) = (second / "verdicts").glob("*.parquet")
    changed = pl.read_parquet(part)
    replace_part(changed.with_columns(pl.lit(True).alias("category"), pl.lit(False).alias("suggestion")), part)
    with pytest.raises(RunFolderError, match=r"24 verdicts .*--prefer"):
        merge([first, second], tmp_path / "other")


@pytest.mark.slow
def test_runs_of_one_model_each_merge_into_one_run_with_one_table(cli, demo_data, tmp_path):
    options = ("--limit", 2, "--data", demo_data, "--scenarios", "ROD,QD", "--tracking-uri", "none")
    folders = [tmp_path / name for name in ("uniform", "guess")]
    for folder in folders:
        done = cli.call("run", "--model", folder.name, *options, "--output", folder)
        assert done.returncode == 0, done.stderr
    into = tmp_path / "both"
    merged = cli.call("merge", *folders, "--output", into)
    assert merged.returncode == 0 and "0 planned episodes pending" in merged.stdout, merged.stderr

    first, second = (playing_times(folder) for folder in folders)
    assert playing_times(into) == (first[0], second[1]), "it was played when its parts were"
    assert stored_sweep(into).name == "uniform+guess"
    reported = cli.call("report", into)
    ranks = (into / "tables/ranking.md").read_text()
    assert reported.returncode == 0 and "uniform" in ranks and "guess" in ranks
    assert [row["model"] for row in json.loads((into / "results.json").read_text())] == ["guess"] * 4 + ["uniform"] * 4
