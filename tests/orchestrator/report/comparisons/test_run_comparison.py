"""Two runs side by side: pairs are of one model, condition, sample and picture, against the differences counted by hand."""

from __future__ import annotations

import shutil

import polars as pl
import pytest
from typer.testing import CliRunner

from orchestrator.api.open_run import open_run
from orchestrator.cli.main import app
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.read_run import read_run, read_runs
from orchestrator.report.statistics.exact_tests import holm
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.lock import RunFolderError
from tests.orchestrator.report.runs import known, played, replaced, sweep

MODELS = ["qwen2.5-vl-7b", "internvl3-8b"]


def test_differences_are_those_that_one_run_would_show_between_two_conditions(tmp_path):
    one, other = (known(tmp_path / name, MODELS, [name], most=40) for name in ("zero-shot", "hint"))
    (other / "sums.sha256").unlink()
    for name in ("plan.json", "sweep.resolved.toml"):
        (other / name).write_bytes((one / name).read_bytes())
    both = known(tmp_path / "both", MODELS, ["zero-shot", "hint"], most=40)
    expected = compare_conditions(read_run(both)).sort("model", "scenario")
    found = compare_runs(read_runs([one, rekeyed(other, one)]))

    same = ["n", "acc", "acc_other", "difference", "difference_low", "difference_high", "gained", "lost", "p", "ps_p"]
    assert found.cells.sort("model", "scenario").select(same).equals(expected.select(same))
    assert found.cells["p_holm"].to_list() == pytest.approx(holm(found.cells["p"].to_numpy()).tolist())
    assert set(found.averages["model"]) == set(MODELS) and set(found.averages["scenarios"]) == {7}


def rekeyed(folder, like):
    """The folder with the cells of another: a run of the same sweep that answered otherwise."""
    cells = {tuple(row[:2]): row[2] for row in read_run(like).planned.select("model", "scenario", "cell").iter_rows()}
    for path in (folder / "episodes").glob("*.parquet"):
        found = pl.read_parquet(path)
        named = [cells[pair] for pair in found.select("model", "scenario").iter_rows()]
        replaced(found.with_columns(pl.Series("cell", named), pl.lit("zero-shot").alias("condition")), path)
    return folder


def test_a_run_beside_itself_differs_in_nothing_and_says_so(demo_data, tmp_path):
    one = played(tmp_path / "a" / "run", sweep(demo_data, ["uniform", "guess"], ["zero-shot"], scenarios=["QD", "ROD"]))
    shutil.copytree(one, tmp_path / "b" / "run")
    found = compare_runs(read_runs([one, tmp_path / "b" / "run"]))

    assert found.names == ("a/run", "b/run")
    assert set(found.cells["difference"]) == {0.0} and set(found.cells["p"]) == {1.0} and set(found.cells["n"]) == {10}
    assert found.notes == ("a/run and b/run are of the same configuration",)
    assert open_run(one).compare(open_run(tmp_path / "b" / "run")).equals(found.cells)


def test_what_differs_is_told_and_other_pictures_are_no_pair(demo_data, tmp_path):
    one = played(tmp_path / "one", sweep(demo_data, ["uniform", "guess"], ["zero-shot"], scenarios=["QD"]))
    two = played(tmp_path / "two", sweep(demo_data, ["uniform"], ["zero-shot", "hint"], scenarios=["QD"], seed=3))
    for path in (two / "turns").glob("*.parquet"):
        first = pl.col("key") == episodes(two).filter(pl.col("condition") == "zero-shot").first().collect()["key"][0]
        replaced(
            pl.read_parquet(path).with_columns(pl.when(first).then(pl.lit("x")).otherwise("image").alias("image")), path
        )
    csv = tmp_path / "cells.csv"
    found = CliRunner().invoke(app, ["compare", str(one), str(two), "--csv", str(csv)], terminal_width=200)

    assert found.exit_code == 0, found.output
    for text in (
        "two less one (mcqa)",
        "seed: 0 in one, 3 in two",
        "1 sample of two and one have different pictures under one id",
        "1 cell only in one: guess/QD/zero-shot",
        "1 cell only in two: uniform/QD/hint",
    ):
        assert text in found.output, found.output
    assert pl.read_csv(csv).select("run", "model", "n").rows() == [("two", "uniform", 9)]


def test_runs_with_nothing_in_common_are_one_sentence(demo_data, tmp_path):
    one, two = (
        played(tmp_path / name, sweep(demo_data, [name], ["hint"], scenarios=["QD"])) for name in ("oracle", "guess")
    )
    with pytest.raises(RunFolderError, match="nothing to compare"):
        compare_runs(read_runs([one, two]))
    with pytest.raises(RunFolderError, match="named twice"):
        compare_runs(read_runs([one, one]))
