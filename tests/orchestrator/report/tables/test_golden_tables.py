"""All tables of one run are those of golden.md; ``UPDATE_GOLDEN=1 pytest tests/orchestrator/report/tables`` writes it anew."""

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from actors.engine.baselines import Baseline
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import report_tables, write_tables
from orchestrator.report.tables.formats import markdown
from orchestrator.report.tables.open_ended import open_ended_table
from tests.goldens import read_golden
from tests.orchestrator.report.runs import judge_answers, play_sweep, sweep

GOLDEN = Path(__file__).with_name("golden.md")
MODELS = {"llava-ov-7b": "uniform", "internvl3-8b": "ask-properly"}
CONDITIONS = ["zero-shot", "hint", "icl-1", "reference"]
TWELVE = [
    "answer", "main", "paired", "ranking", "conditions", "reference", "open-ended", "turns", "chance", "endings", "missing",
    "cost",
]  # fmt: skip
"""All tables of the core, in their order."""


@pytest.fixture(scope="module")
def folder(demo_data, tmp_path_factory):
    """Two models and two baselines, in multiple choice, open-ended answers and tool calls."""
    options = {"protocol": ["mcqa", "oeg", "tools"], "judge": {"model": "rule-judge"}}
    wanted = sweep(demo_data, [*MODELS, "oracle", "uniform"], CONDITIONS, **options)
    backends = {name: Baseline(policy) for name, policy in MODELS.items()}
    output = play_sweep(tmp_path_factory.mktemp("golden") / "run", wanted, backends=backends)
    return judge_answers(output, wanted, wanted.judge, Baseline("rule-judge"))


def test_tables_are_golden(folder):
    tables = report_tables(read_run(folder))
    texts = [re.sub(r"rule-judge\S*", "RULE-JUDGE", markdown(table)) for table in tables]
    text = "\n".join(f"<!-- {table.name} -->\n{part}" for table, part in zip(tables, texts, strict=True))
    assert read_golden(GOLDEN, text) == text


def test_at_most_twelve_tables_of_which_four_are_open(folder):
    tables = report_tables(read_run(folder))
    names = [table.name for table in tables]
    assert names == [name for name in TWELVE if name in names]
    assert [table.name for table in tables if table.is_open] == TWELVE[:4]
    for table in tables:
        assert len(table.title.split()) <= 10, table.title
        for column in range(1, len(table.columns)):
            assert any(row[column].text not in ("", "-") for row in table.rows), (table.name, column)


def test_every_table_is_written_in_three_formats_and_equal_runs_give_equal_bytes(folder):
    paths = write_tables(read_run(folder))
    before = {path: path.read_bytes() for path in paths}
    names = {path.name for path in paths}
    for table in report_tables(read_run(folder)):
        assert {f"{table.name}.{form}" for form in ("md", "tex", "csv")} <= names
    for measure in ("cells", "averages", "lift", "lenient", "models-paired", "paired-averages", "resources"):
        assert f"{measure}.csv" in names
    assert write_tables(read_run(folder)) == paths and {path: path.read_bytes() for path in paths} == before


def test_a_condition_of_fewer_scenarios_has_no_average_beside_others(demo_data, tmp_path):
    own = {"name": "mine", "scenarios": ["QD"]}
    wanted = sweep(demo_data, ["oracle"], ["zero-shot", "mine"], protocol=["mcqa", "tools"], condition=[own])
    tables = {table.name: table for table in report_tables(read_run(play_sweep(tmp_path / "run", wanted)))}
    assert [row[-1].text for row in tables["turns"].rows] == ["100.0 / 5.7", "-"]
    assert [column.name for column in tables["conditions"].columns[1:]] == ["zero-shot", "zero-shot (QD)", "mine"]
    judged = sweep(demo_data, ["oracle"], ["zero-shot", "hint"], protocol=["oeg"], scenarios=["QD", "ROD"])
    run = read_run(play_sweep(tmp_path / "judged", judged))
    fewer = replace(
        run, planned=run.planned.filter((pl.col("condition") == "zero-shot") | (pl.col("scenario") == "QD"))
    )
    assert [row[1].text for row in open_ended_table(fewer).rows] == ["0 verdicts of 10 answers", "-"]
