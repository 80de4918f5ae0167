"""The end of an attempt: what it writes into its folder, and when the sweep counts as complete."""

import json

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from orchestrator.execution.prepare import AttemptState
from orchestrator.execution.score import AttemptOutcome, write_outcome
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import checksums
from orchestrator.storage.status import read_status
from tests.orchestrator.report.runs import judge_answers, play_sweep, replace_part, sweep

JUDGED = {"protocol": ["oeg"], "judge": {"model": "rule-judge"}, "scenarios": ["ROD"]}


def state_of(spec, folder, **fields) -> AttemptState:
    """The state of an attempt that plays nothing more: no store, signals or alerts are used."""
    return AttemptState(spec, build_plan(spec), folder, None, None, print, None, **fields)


def results(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.fixture
def spec(demo_data):
    return sweep(demo_data, ["uniform"], ["hint", "zero-shot"], scenarios=["ROD"])


def test_a_finished_sweep_is_complete_and_written(spec, tmp_path):
    folder = play_sweep(tmp_path / "run", spec)
    before = results(folder)
    (folder / "results.json").unlink()
    checksums.write(folder / "notes.json", b"{}")
    (folder / "notes.json").write_text("{")
    outcome = write_outcome(state_of(spec, folder, seconds=2.5, reasons={"m": "gone"}))

    assert isinstance(outcome, AttemptOutcome) and outcome.complete and outcome.exit_code == 0
    assert (outcome.interrupted, outcome.seconds) == (False, 2.5)
    assert outcome.reasons == {"m": "gone"}
    assert results(folder) == before and outcome.rows["cell"].to_list() == ["uniform/ROD/hint", "uniform/ROD/zero-shot"]
    status = read_status(folder)
    assert status["finished"] is True and {cell["state"] for cell in status["cells"]} == {"complete"}
    assert checksums.damaged_files(folder) == [], "what nobody rewrites is put aside"


def test_a_policy_whose_workers_were_lost_has_the_reason_of_the_group_of_all_policies(spec, tmp_path):
    folder = play_sweep(tmp_path / "run", spec, only=3)
    write_outcome(state_of(spec, folder, reasons={"builtin": "killed"}))

    assert {(cell["state"], cell["reason"]) for cell in read_status(folder)["cells"]} == {("failed", "killed")}


def test_a_failed_episode_leaves_a_finished_sweep_incomplete(spec, tmp_path):
    folder = play_sweep(tmp_path / "run", spec)
    part = next((folder / "episodes").glob("*.parquet"))
    table = pl.read_parquet(part)
    first = pl.int_range(pl.len()) == 0
    failed = {"ending": pl.lit("failed"), "correct": pl.lit(False)}
    columns = {name: pl.when(first).then(value).otherwise(name) for name, value in failed.items()}
    replace_part(table.with_columns(**columns), part)
    outcome = write_outcome(state_of(spec, folder))

    assert (outcome.rows["finished"].sum(), outcome.rows["failed"].sum()) == (20, 1)
    assert (outcome.complete, outcome.exit_code) == (False, 1)


@pytest.mark.parametrize(("read", "complete"), [(0, False), (1, True)])
def test_a_judge_that_reads_no_answer_leaves_the_sweep_incomplete(demo_data, tmp_path, read, complete):
    spec = sweep(demo_data, ["ask-properly"], ["zero-shot"], **JUDGED)
    folder = play_sweep(tmp_path / "run", spec)
    judge_answers(folder, spec, spec.judge, Baseline("rule-judge"))
    part = next((folder / "verdicts").glob("*.parquet"))
    lost = pl.int_range(pl.len()) >= read
    bits = [
        name for name, kind in pl.read_parquet_schema(part).items() if kind == pl.Boolean and name != "first_failed"
    ]
    table = pl.read_parquet(part).with_columns(
        *(pl.when(lost).then(None).otherwise(pl.col(name)).alias(name) for name in bits),
        pl.when(lost).then(pl.lit("no verdict")).otherwise("reason").alias("reason"),
    )
    replace_part(table, part)
    outcome = write_outcome(state_of(spec, folder))

    assert (outcome.rows["judged"].sum(), outcome.rows["unjudged"].sum()) == (read, 10 - read)
    assert outcome.complete is complete
