"""On a terminal, too, an error is visible, and what is not complete is not shown as if it were."""

import io
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console

from orchestrator.report.read_run import read_run
from orchestrator.report.tables.console import rich_table
from orchestrator.report.tables.results import result_tables
from orchestrator.report.tables.table import Table, TableCell, columns, line
from tests.orchestrator.report.runs import played, sweep


def printed(rows: pl.DataFrame) -> str:
    return shown(*result_tables(rows))


def shown(*found) -> str:
    console = Console(width=160, file=io.StringIO(), record=True)
    for table in found:
        console.print(rich_table(table))
    return console.export_text()


@pytest.fixture
def rows(demo_data, tmp_path):
    return read_run(played(tmp_path / "run", sweep(demo_data, ["uniform"], ["zero-shot"]))).rows


def changed(rows: pl.DataFrame, scenario: str, **columns) -> pl.DataFrame:
    hit = pl.col("scenario") == scenario
    return rows.with_columns(pl.when(hit).then(pl.lit(to)).otherwise(name).alias(name) for name, to in columns.items())


def test_a_whole_run_has_an_average_and_no_mark(rows):
    assert "unfinished" not in printed(rows) and "!" not in printed(rows)


def test_a_cell_with_episodes_that_have_no_answer_is_marked_and_named(rows):
    text = printed(changed(rows, "COCO", errors=3, unprocessable=3, scored=7))

    assert "! without an answer, and in no measure: uniform/COCO 3" in text
    assert text.count("!") == 2 and "unfinished" not in text


def test_a_cell_whose_episodes_a_limit_cut_short_is_named_with_the_bound_of_its_accuracy(rows):
    [table] = result_tables(changed(rows, "ROD", overflow=2, truncated=1, acc_bound=75.0))

    assert table.notes == (
        "~ outgrew the model, and counted as not right: uniform/ROD 2 (acc at most 75.0)",
        "^ spent a reply's tokens before its first word, and counted as not right: uniform/ROD 1 (acc at most 75.0)",
    )


def test_a_cell_without_any_answer_is_finished_and_has_no_figure(rows):
    text = printed(changed(rows, "ROD", errors=10, unprocessable=10, scored=0, acc=None, ps=None))

    assert "10/10!" in text and "unfinished" not in text


def test_of_the_paired_table_baselines_are_only_counted():
    rows = (line("a, hint", [TableCell("+1.0*", 1.0)]), line("oracle, hint", [TableCell("0.0", 0.0)]))
    table = Table("paired", "against zero-shot", columns("model", ["ROD" * 9]), rows, ranked=1, fold_baselines=True)

    assert "a, hint" in shown(table) and "+1.0*" in shown(table)
    assert "oracle" not in shown(table) and "1 row of baselines: tables/paired.md" in shown(table)
    assert "oracle" in shown(replace(table, ranked=0)), "where only baselines were played, they are the table"


def test_failed_episodes_are_missing(rows):
    text = printed(changed(rows, "ROD", errors=4, failed=4, scored=6))

    assert "(6/10)!" in text and "unfinished" in text
