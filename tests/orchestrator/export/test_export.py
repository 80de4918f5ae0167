"""An export is complete: every episode and turn, valid against the schemas of others, and safe in a spreadsheet."""

from __future__ import annotations

import json
from hashlib import sha256

import polars as pl
import pytest
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.export.every_eval_ever import SCHEMAS
from orchestrator.export.export import FORMATS, export
from orchestrator.report.read_run import read_run
from orchestrator.storage.episode_store import episodes, turns
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


def test_trajectories_are_the_store_with_questions(run, tmp_path):
    assert export(run, "trajectories", tmp_path / "t") == ["README.md", "data/episodes.parquet"]
    trajectories = pl.read_parquet(tmp_path / "t/data/episodes.parquet")
    exploded = trajectories.select("key", "turns").explode("turns").unnest("turns").sort("key", "turn")

    assert exploded.equals(turns(run).collect().select(exploded.columns).sort("key", "turn")), "replies as they are"
    assert trajectories["question"].null_count() == 0 and set(trajectories["options"].list.len()) != {0}
    assert (
        trajectories.filter(protocol="oeg")["verdicts"].list.len().to_list()
        == [1] * trajectories.filter(protocol="oeg").height
    )
    card = (tmp_path / "t/README.md").read_text()
    assert f"{trajectories.height:,} episodes of 2 models" in card and "License" in card and card.startswith("---\n")


def test_records_of_every_eval_ever_are_valid_and_agree_with_the_run(run, tmp_path):
    into = tmp_path / "eee"
    names = export(run, "every-eval-ever", into, by="a lab")
    records = [name for name in names if name.endswith(".json")]
    schemas = {
        name: json.loads((SCHEMAS / f"{name}.schema.json").read_text()) for name in ("eval", "instance_level_eval")
    }
    assert len(records) == 2
    for name in records:
        record = json.loads((into / name).read_text())
        Draft7Validator(schemas["eval"]).validate(record)
        detail = record["detailed_evaluation_results"]
        content = (into / detail["file_path"]).read_bytes()
        lines = [json.loads(line) for line in content.splitlines()]
        for line in lines:
            Draft7Validator(schemas["instance_level_eval"]).validate(line)
        assert (sha256(content).hexdigest(), len(lines)) == (detail["checksum"], detail["total_rows"])
        results = {entry["evaluation_result_id"]: entry for entry in record["evaluation_results"]}
        for number in {line["evaluation_result_id"] for line in lines}:
            scores = [line["evaluation"]["score"] for line in lines if line["evaluation_result_id"] == number]
            assert 100 * sum(scores) / len(scores) == pytest.approx(results[number]["score_details"]["score"])
        assert record["source_metadata"]["source_organization_name"] == "a lab"
        assert {line["model_id"] for line in lines} == {record["model_info"]["id"]}


@pytest.mark.parametrize("to", FORMATS)
def test_equal_runs_give_equal_exports_and_none_is_overwritten(run, tmp_path, to):
    first, second = (
        {name: (tmp_path / at / name).read_bytes() for name in export(run, to, tmp_path / at)} for at in "ab"
    )

    assert first == second and first
    with pytest.raises(RunFolderError, match="already exists"):
        export(run, to, tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"], "no draft is left"


def test_the_command_says_what_it_wrote_and_what_formats_there_are(run, tmp_path):
    cli = CliRunner()
    done = cli.invoke(app, ["export", str(run), "--to", "csv", "--output", str(tmp_path / "x")])
    wrong = cli.invoke(app, ["export", str(run), "--to", "xml"])

    assert done.exit_code == 0 and "4 files in" in done.output
    assert wrong.exit_code == 2 and "csv, every-eval-ever, inspect, trajectories" in wrong.output


def test_the_formats_are_those_that_the_command_lists(run, tmp_path):
    names = ["csv", "every-eval-ever", "inspect", "trajectories", "turns"]
    with pytest.raises(RunFolderError) as refused:
        export(run, "xml", tmp_path / "x")

    assert list(FORMATS) == names and not list(tmp_path.iterdir())
    assert str(refused.value) == f"unknown format 'xml'; type --to {', '.join(names)}"
