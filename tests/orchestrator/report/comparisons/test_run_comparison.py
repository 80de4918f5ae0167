"""Compare two runs: pairs share model, condition, sample and picture; their differences are checked independently."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from envs.errors import RunFolderError
from orchestrator.api import open_run
from orchestrator.cli.main import app
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.measures.paired import comparisons
from orchestrator.report.read_run import read_run
from orchestrator.report.statistics.clustered import holm
from tests.orchestrator.report.runs import play_sweep, replace_part, sweep, write_published_run

MODELS = ["qwen2.5-vl-7b", "internvl3-8b"]


def test_run_differences_match_condition_differences(tmp_path):
    first, second = (write_published_run(tmp_path / name, MODELS, [name], most=40) for name in ("zero-shot", "hint"))
    (second / "sums.sha256").unlink()
    for name in ("plan.json", "sweep.resolved.toml"):
        (second / name).write_bytes((first / name).read_bytes())
    both = write_published_run(tmp_path / "both", MODELS, ["zero-shot", "hint"], most=40)
    expected = comparisons(read_run(both)).conditions.sort("model", "scenario")
    comparison = compare_runs([read_run(first), read_run(copy_cells(second, first))])

    same = ["n", "acc", "acc_other", "difference", "difference_low", "difference_high", "gained", "lost", "p", "ps_p"]
    assert comparison.cells.sort("model", "scenario").select(same).equals(expected.select(same))
    averages = comparison.averages
    assert averages["p_holm"].to_list() == pytest.approx(holm(averages["p"].to_numpy()).tolist()), "a family of its own"
    for least, low, high in averages.select("least", "difference_low", "difference_high").iter_rows():
        error = (high - low) / (2 * norm.isf(0.025))
        assert norm.sf(norm.isf(0.025 / averages.height) - least / error) == pytest.approx(0.8), "its power"
    smallest = pl.concat([comparison.cells["p"], comparison.cells["ps_p"], averages["ps_p"]]).min()
    tests = 2 * comparison.cells.height + averages.height
    found = pl.concat([comparison.cells["p_holm"], comparison.cells["ps_p_holm"], averages["ps_p_holm"]]).min()
    assert found == pytest.approx(min(1.0, tests * smallest)), "everything else is the other"
    assert set(comparison.averages["model"]) == set(MODELS) and set(comparison.averages["scenarios"]) == {7}


def copy_cells(folder, like):
    """Give the folder the cells of another, as a run of the same sweep with other answers."""
    cells = {tuple(row[:2]): row[2] for row in read_run(like).planned.select("model", "scenario", "cell").iter_rows()}
    for path in (folder / "episodes").glob("*.parquet"):
        table = pl.read_parquet(path)
        cell_keys = [cells[pair] for pair in table.select("model", "scenario").iter_rows()]
        replace_part(table.with_columns(pl.Series("cell", cell_keys), pl.lit("zero-shot").alias("condition")), path)
    return folder


def test_run_compared_with_itself_has_no_differences(demo_data, tmp_path):
    run = play_sweep(
        tmp_path / "a" / "run", sweep(demo_data, ["uniform", "guess"], ["zero-shot"], scenarios=["QD", "ROD"])
    )
    shutil.copytree(run, tmp_path / "b" / "run")
    comparison = compare_runs([read_run(run), read_run(tmp_path / "b" / "run")])

    assert comparison.names == ("a/run", "b/run")
    assert set(comparison.cells.select("difference", "p", "n").rows()) == {(0.0, 1.0, 10)}
    assert comparison.notes == ("a/run and b/run are of the same configuration",)
    assert open_run(run).compare(open_run(tmp_path / "b" / "run")).equals(comparison.cells)


def test_differences_are_noted_and_other_pictures_are_refused(demo_data, tmp_path):
    earlier = play_sweep(tmp_path / "one", sweep(demo_data, ["uniform", "guess"], ["zero-shot"], scenarios=["QD"]))
    later = play_sweep(tmp_path / "two", sweep(demo_data, ["uniform"], ["zero-shot", "hint"], scenarios=["QD"], seed=3))
    done = CliRunner().invoke(app, ["compare", str(earlier), str(later)], terminal_width=200)
    figures = json.loads(CliRunner().invoke(app, ["compare", str(earlier), str(later), "--json"]).output)

    assert done.exit_code == 0, done.output
    for text in (
        "two less one (mcqa)",
        f"A true difference of {figures['averages'][0]['least']:.1f} points of accuracy gets a star in 80% of cases",
        "seed: 0 in one, 3 in two",
        "1 cell only in one: guess/QD/zero-shot",
        "1 cell only in two: uniform/QD/hint",
    ):
        assert text in done.output, done.output
    assert [(row["run"], row["model"], row["n"]) for row in figures["cells"]] == [("two", "uniform", 10)]
    for path in (later / "turns").glob("*.parquet"):
        replace_part(pl.read_parquet(path).with_columns(pl.lit("x").alias("image")), path)
    with pytest.raises(RunFolderError, match="one and two have different pictures of QD under the same id"):
        compare_runs([read_run(earlier), read_run(later)])


def test_runs_with_nothing_in_common_are_refused(demo_data, tmp_path):
    first, second = (
        play_sweep(tmp_path / name, sweep(demo_data, ["uniform"], [name], scenarios=["QD"]))
        for name in ("hint", "zero-shot")
    )
    with pytest.raises(RunFolderError, match="nothing to compare"):
        compare_runs([read_run(first), read_run(second)])
    with pytest.raises(RunFolderError, match="named twice"):
        compare_runs([read_run(first), read_run(first)])
    with pytest.raises(RunFolderError, match="hint is only one run"):
        open_run(first).compare()


def test_pictures_that_a_seed_draws_may_differ(demo_data, tmp_path):
    first, second = (
        play_sweep(
            tmp_path / str(seed),
            sweep(demo_data, ["uniform"], ["swapped"], scenarios=["QD"], seed=seed, protocol=protocols),
        )
        for seed, protocols in enumerate((["mcqa"], ["mcqa", "tools"]))
    )
    comparison = compare_runs([read_run(first), read_run(second)])

    assert comparison.cells["n"].to_list() == [10]
    assert "1 cell only in 1: uniform/QD/swapped/tools" in comparison.notes


def test_a_run_of_one_model_is_compared_with_each_model_of_another(demo_data, tmp_path):
    models = {"person": ["guess"], "one": ["oracle"], "many": ["oracle", "uniform"]}
    person, one, many = (
        play_sweep(
            tmp_path / name, sweep(demo_data, names, ["hint"], scenarios=["QD"], selection={"limit": 4 + len(names)})
        )
        for name, names in models.items()
    )
    averages = compare_runs([*map(read_run, (person, one, many))]).averages

    assert averages.select("run", "model", "n").rows() == [
        ("many", "oracle less guess", 5), ("many", "uniform less guess", 5), ("one", "oracle less guess", 5),
    ]  # fmt: skip
