"""An export is complete, safe in a spreadsheet, and as the store counts; other formats are named with where they are."""

from __future__ import annotations

import json

import polars as pl
import pytest
from typer.testing import CliRunner

from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.export import EPISODE_COLUMNS, FORMATS, SAMPLE_COLUMNS, describe_columns, export
from orchestrator.report.read_run import read_run
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.schemas import METADATA
from tests.orchestrator.report.runs import play_export_run

HOSTILE = '=HYPERLINK("http://x";"y")'


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    """Two policies in multiple choice and open-ended answers, one reply a formula."""
    return play_export_run(tmp_path_factory.mktemp("run") / "run", demo_data, HOSTILE)


def test_csv_has_every_row_and_no_formula(run, tmp_path):
    assert export(run, "csv", tmp_path / "csv") == ["episodes.csv", "results.csv", "turns.csv", "verdicts.csv"]
    rows = pl.read_csv(tmp_path / "csv/turns.csv")

    assert rows.height == turns(run).select(pl.len()).collect().item()
    assert rows.filter(pl.col("reply").str.starts_with("=")).is_empty()
    assert "'" + HOSTILE in rows["reply"].to_list()
    assert pl.read_csv(tmp_path / "csv/episodes.csv").height == episodes(run).select(pl.len()).collect().item()
    assert pl.read_csv(tmp_path / "csv/results.csv")["acc"].drop_nulls().to_list() == pytest.approx(
        read_run(run).rows["acc"].drop_nulls().to_list()
    )


def test_one_line_says_when_a_model_asks_and_turns_carry_their_episode_and_sample(run, tmp_path):
    assert export(run, "turns", tmp_path / "out") == ["turns.parquet"]
    path = tmp_path / "out" / "turns.parquet"
    table, stored = pl.read_parquet(path), turns(run).collect()
    counts = table.filter(action="suggestion").group_by("model", "scenario", "turn").len()
    joined = stored.filter(action="suggestion").join(episodes(run).collect(), on="key")

    assert counts.sort(counts.columns).equals(joined.group_by("model", "scenario", "turn").len().sort(counts.columns))
    assert table.columns == [*EPISODE_COLUMNS, *stored.columns, *SAMPLE_COLUMNS]
    assert table.select(stored.columns).equals(stored)
    assert table["question"].null_count() == 0 and all(table["options"].list.len() > 0)
    assert all(answer in categories for answer, categories in table.select("answer", "categories").unique().iter_rows())
    assert json.loads(pl.read_parquet_metadata(path)[METADATA]) == describe_columns() and all(
        describe_columns().values()
    )


@pytest.mark.parametrize("to", FORMATS)
def test_equal_runs_give_equal_exports_and_none_is_overwritten(run, tmp_path, to):
    first, second = (
        {name: (tmp_path / at / name).read_bytes() for name in export(run, to, tmp_path / at)} for at in "ab"
    )

    assert first == second and first
    with pytest.raises(RunFolderError, match="already exists"):
        export(run, to, tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"], "no draft is left"


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("every-eval-ever", ["release 0.2.0"]),
        ("trajectories", ["release 0.2.0", "--to turns"]),
        ("inspect", ["extra bridges", "pip install"]),
        ("xml", ["unknown format", "csv or turns"]),
    ],
)
def test_another_format_is_refused_in_one_sentence_that_says_where_it_is(run, tmp_path, monkeypatch, to, words):
    monkeypatch.setattr("orchestrator.export.offers", lambda kind, taken: {})  # as if no package were installed
    with pytest.raises(RunFolderError) as refusal:
        export(run, to, tmp_path / "x")

    assert all(word in str(refusal.value) for word in words) and not list(tmp_path.iterdir())


def test_the_command_says_what_it_wrote_also_of_the_working_folder(run, monkeypatch):
    monkeypatch.chdir(run)
    done = CliRunner().invoke(app, ["export", ".", "--to", "csv"])

    assert done.exit_code == 0 and f"4 files in {run}-csv" in done.output
