"""Console tables show errors and mark what is not complete."""

import io
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console

from orchestrator.report.read_run import read_run
from orchestrator.report.tables.formats import rich_table
from orchestrator.report.tables.paper_tables import result_tables
from orchestrator.report.tables.table import Column, Table, TableCell, columns, line
from tests.orchestrator.report.runs import play_sweep, sweep


def render_rows(rows: pl.DataFrame) -> str:
    return render_tables(*result_tables(rows))


def render_tables(*tables) -> str:
    console = Console(width=160, file=io.StringIO(), record=True)
    for table in tables:
        console.print(rich_table(table))
    return console.export_text()


@pytest.fixture
def rows(demo_data, tmp_path):
    return read_run(play_sweep(tmp_path / "run", sweep(demo_data, ["uniform"], ["zero-shot"]))).rows


def change_rows(rows: pl.DataFrame, scenario: str, **columns) -> pl.DataFrame:
    hit = pl.col("scenario") == scenario
    return rows.with_columns(pl.when(hit).then(pl.lit(to)).otherwise(name).alias(name) for name, to in columns.items())


def test_cell_with_unanswered_episodes_is_marked(rows):
    text = render_rows(change_rows(rows, "COCO", errors=3, unprocessable=3, scored=7))

    assert "! without an answer, left out of all measures: uniform/COCO 3" in text
    assert text.count("!") == 2 and "unfinished" not in text


def test_truncated_cell_is_noted_with_accuracy_bound(rows):
    [table] = result_tables(change_rows(rows, "ROD", overflow=2, truncated=1, acc_bound=75.0))

    assert table.notes == (
        "~ outgrew the model, and counted as not right: uniform/ROD 2 (acc at most 75.0)",
        "^ spent a reply's tokens before its first word, and counted as not right: uniform/ROD 1 (acc at most 75.0)",
    )


def test_paired_table_folds_baselines_into_count():
    rows = (line("a, hint", [TableCell("+1.0*", 1.0)]), line("oracle, hint", [TableCell("0.0", 0.0)]))
    table = Table("paired", "against zero-shot", columns("model", ["ROD" * 9]), rows, ranked=1, fold_baselines=True)

    assert "a, hint" in render_tables(table) and "+1.0*" in render_tables(table)
    assert "oracle" not in render_tables(table) and "1 row of baselines: tables/paired.md" in render_tables(table)
    assert "oracle" in render_tables(replace(table, ranked=0)), "where only baselines were played, they are the table"


def test_failed_episodes_are_missing(rows):
    text = render_rows(change_rows(rows, "ROD", errors=4, failed=4, scored=6))

    assert "(6/10)!" in text and "unfinished" in text


def test_a_rendered_table_aligns_numbers_and_dims_what_is_unfinished():
    cells = [TableCell("1.5", note="1 to 2"), TableCell("3/8", style="unfinished")]
    about = Table(
        "x", "a [b]title", (*columns("model", ["acc"]), Column("why", number=False, wrap=True)), (line("m", cells),)
    )
    plain, noted = rich_table(about), rich_table(replace(about, notes=("first", "second")))

    assert [(column.justify, column.no_wrap, column.overflow) for column in plain.columns] == [
        ("left", True, "ellipsis"), ("right", True, "ellipsis"), ("left", False, "fold"),
    ]  # fmt: skip
    assert [[(text.plain, text.style) for text in column.cells] for column in plain.columns] == [
        [("m", "")], [("1.5 (1 to 2)", "")], [("3/8", "dim")],
    ]  # fmt: skip
    assert (plain.title.plain, plain.title_justify, plain.caption, plain.caption_justify) == (
        "a [b]title", "left", None, "left"
    )  # fmt: skip
    assert noted.caption.plain == "first\nsecond" and plain.padding == (0, 1, 0, 0)
    assert [row.rstrip() for row in render_tables(about).splitlines()] == [
        "a [b]title", "", " model           acc  why", f" {'─' * 25}", " m      1.5 (1 to 2)  3/8", "",
    ]  # fmt: skip
