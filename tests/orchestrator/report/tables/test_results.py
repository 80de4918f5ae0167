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


def test_multiple_choice_shows_accuracy_and_suggestions():
    (table,) = tables(ROW, {**ROW, "scenario": "ROD", "acc": 100.0, "ps": 12.0})

    assert (table.name, table.title, table.notes) == ("hint", "hint: acc % / ps", ())
    assert [column.name for column in table.columns] == ["model", "ROD", "QD", "avg"]
    assert texts(table) == [["m", "100.0 /12.0", "41.3 / 1.3", "70.6 / 6.6"]]


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


def test_no_answers_need_no_judge():
    (table,) = tables({**OEG, "answered": 0, "judged": 0, "unjudged": 0, "scored": 10})

    assert table.title == "hint: open-ended, either / category / suggestion %"


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


def test_a_note_names_three_cells_and_counts_the_others():
    rows = [{**ROW, "model": f"m{number}", "overflow": 1000} for number in range(3 + 1)]

    (note,) = tables(*rows[:3])[0].notes
    assert note.startswith(
        "~ outgrew the model, and counted as not right: m0/QD 1,000 (acc at most 50.0), m1/QD 1,000 (acc"
    )
    assert note.count("1,000") == 3 and "more" not in note
    (note,) = tables(*rows)[0].notes
    assert note.count("1,000") == 3 and note.endswith("m2/QD 1,000 (acc at most 50.0) and 1 more")


def test_average_needs_a_figure_in_every_scenario():
    (table,) = tables(ROW, {**ROW, "scenario": "ROD", "acc": None, "scored": 10})

    assert texts(table) == [["m", "10/10", "41.3 / 1.3", "-"]]


def test_cells_without_a_game_have_no_table():
    played = {**ROW, "answered": None, "judged": None, "unjudged": None, "judge": None}

    assert not tables({**played, "scored": 0, "acc": None})
    assert tables({**played, "scored": 0, "acc": None, "answered": 1, "judged": 1, "unjudged": 0})
    assert tables({**played, "scored": 0, "acc": None, "finished": 3, "errors": 3})
    assert tables({**played, "scored": 1})
    assert not tables({**ROW, "scored": 0, "acc": None}), "results of no judge"


def test_models_and_conditions_are_in_the_papers_order():
    rows = [
        {**ROW, "model": model, "condition": condition, "protocol": protocol}
        for condition in ("zz", "hint", "zero-shot") for protocol in ("tools", "mcqa")
        for model in ("zebra", "ant", "qwen2.5-vl-3b", "llava-1.5-7b")
    ]  # fmt: skip
    found = tables(*rows)

    assert [table.name for table in found] == ["zero-shot", "zero-shot", "hint", "hint", "zz", "zz"]
    assert ["tool" in table.title for table in found] == [False, True] * 3
    assert [row[0] for row in texts(found[0])] == ["llava-1.5-7b", "qwen2.5-vl-3b", "ant", "zebra"]


def test_measures_of_packages_stand_after_the_own_ones():
    (table,) = tables({**ROW, "tone": 1.26, "tone_n": 10, "tone_low": 1.0, "tone_high": 2.0})

    assert table.title == "hint: acc % / ps / tone" and texts(table) == [
        ["m", "41.3 / 1.3 /  1.3", "41.3 / 1.3 /  1.3"]
    ]
