"""The tables of ``results.json``: formats of each protocol, marks, notes and averages of planted rows."""

import polars as pl
import pytest

from orchestrator.report.tables.results import result_tables

ROW = {
    "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "planned": 10, "finished": 10, "scored": 10,
    "errors": 0, "unprocessable": 0, "refused": 0, "failed": 0, "overflow": 0, "truncated": 0, "acc": 41.26, "ps": 1.26,
    "share_unparsable": 3.0, "acc_bound": 50.0,
}  # fmt: skip
OEG = {
    **ROW, "protocol": "oeg", "acc": None, "ps": None, "aggregate": 61.4, "category": 50.6, "suggestion": None, "judge": "b/1",
    "answered": 1500, "judged": 1400, "unjudged": 100, "scored": 0,
}  # fmt: skip


def tables(*rows):
    floats = ("acc", "ps", "aggregate", "category", "suggestion")
    names = {name: pl.Float64 for name in floats if name in rows[0]}
    return list(result_tables(pl.DataFrame(list(rows), schema_overrides=names, infer_schema_length=None)))


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_protocols_have_their_own_formats():
    calls, letters, turns = tables(
        {**ROW, "protocol": "tools"}, {**ROW, "protocol": "mcqa"}, {**ROW, "protocol": "oeg-multi"}
    )[::-1]

    assert {table.title: texts(table)[0][1] for table in (calls, letters, turns)} == {
        "hint: acc % / ps": "41.3 / 1.3",
        "hint: open-ended over several turns, acc % / ps": "41.3 / 1.3",
        "hint: tool calls, acc % / ps / malformed % of turns": "41.3 / 1.3 / 3.0",
    }


@pytest.mark.parametrize(
    ("judges", "end"),
    [
        (["b/1", "a/1"], " (by a/1, b/1; 200 of 3,000 answers without a verdict)"),
        ([None, None], " (by nobody; 200 of 3,000 answers without a verdict)"),
    ],
)
def test_open_ended_names_its_judges(judges, end):
    (table,) = tables({**OEG, "judge": judges[0]}, {**OEG, "scenario": "ROD", "judge": judges[1]})

    assert table.title == f"hint: open-ended, either / category / suggestion %{end}"
    assert texts(table) == [["m", "61 /51 /-", "61 /51 /-", "61 /51 /-"]]


def test_marks_stand_after_their_cells_and_are_explained():
    (table,) = tables(
        {**ROW, "errors": 2, "failed": 2},
        {**ROW, "scenario": "ROD", "overflow": 1, "truncated": 1},
        {**ROW, "scenario": "CIT", "acc": None, "errors": 1, "finished": 3},
        {**ROW, "scenario": "COCO", "finished": 4},
    )

    assert texts(table) == [["m", "41.3 / 1.3~^", "41.3 / 1.3 (8/10)!", "3/10!", "41.3 / 1.3 (4/10)", "unfinished"]]
    assert [cell.style for cell in table.rows[0]] == ["", "", "unfinished", "", "unfinished", ""]
    assert table.notes == (
        "! without an answer, left out of all measures: m/CIT 1, m/QD 2",
        "~ outgrew the model, and counted as not right: m/ROD 1 (acc at most 50.0)",
        "^ spent a reply's tokens before its first word, and counted as not right: m/ROD 1 (acc at most 50.0)",
    )
