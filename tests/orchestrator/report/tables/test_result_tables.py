"""The tables of ``results.json``: formats of each protocol, marks, notes and averages of planted rows."""

import polars as pl

from envs.samples import paper_ids
from envs.types import Ending
from orchestrator.report.tables import paper_tables
from orchestrator.report.tables.paper_tables import result_tables
from sweeps.protocol import HEADLINE
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

ROW = {
    "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "planned": 10, "finished": 10, "scored": 10,
    "errors": 0, "unprocessable": 0, "refused": 0, "failed": 0, "overflow": 0, "truncated": 0, "thoughts_cut": 0,
    "acc": 41.26, "ps": 1.26,
    "share_unparsable": 3.0, "acc_bound": 50.0,
}  # fmt: skip


def tables(*rows):
    floats = ("acc", "ps", "aggregate", "category", "suggestion")
    names = {name: pl.Float64 for name in floats if name in rows[0]}
    return list(result_tables(pl.DataFrame(list(rows), schema_overrides=names, infer_schema_length=None)))


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_marks_stand_after_their_cells_and_are_explained():
    (table,) = tables(
        {**ROW, "errors": 2, "failed": 2},
        {**ROW, "scenario": "ROD", "overflow": 1, "truncated": 1},
        {**ROW, "scenario": "CIT", "acc": None, "errors": 1, "finished": 3},
        {**ROW, "scenario": "COCO", "finished": 4},
    )

    assert texts(table) == [["m", "41.3 / 1.3~^", "41.3 / 1.3 (8/10)!", "3/10!", "41.3 / 1.3 (4/10)", "unfinished"]]
    assert [cell.style for cell in table.rows[0]] == ["", "", *["unfinished"] * 4]
    assert [note[0] for note in table.notes] == ["!", "~", "^"]
    assert "m/QD 2" in table.notes[0] and "acc at most 50.0" in table.notes[1]


def test_only_the_whole_filtered_benchmark_is_the_score():
    rows = [
        {**ROW, "condition": "zero-shot", "scenario": scenario, "planned": len(ids), "finished": len(ids)}
        for scenario, ids in paper_ids().items()
    ]
    (whole,), (part,) = tables(*rows), tables(*rows[1:])

    assert HEADLINE in whole.title and HEADLINE not in part.title


def cell(name, right, n=4):
    """Return the episodes of a cell, each with one suggestion, the first ``right`` of them correct."""
    return [episode(number, name, correct=number < right) for number in range(n)]


def test_solved_examples_stand_beside_zero_shot_over_their_scenarios(run_data):
    names = ("ROD/zero-shot", "QD/zero-shot", "ROD/icl-1", "MVP-N/icl-1")
    rows = [row for name, right in zip(names, (1, 4, 2, 3), strict=True) for row in cell(f"m/{name}", right)]
    refused = episode(4, "m/ROD/icl-1", Ending.REFUSED, turns=0)
    run = replace_episodes(run_data, [*rows, *cell("n/QD/zero-shot", 2), *cell("m/ROD/reference", 4), refused])
    table = paper_tables.conditions_table(run)

    assert "m/ROD/icl-1 1" in table.notes[-1], "a table of several conditions names them"
    assert [column.name for column in table.columns] == ["model", "zero-shot", "zero-shot (ROD, MVP-N)", "icl-1"]
    assert texts(table) == [["m", "62.5 / 1.0", "25.0 / 1.0", "62.5 / 1.0"], ["n", "50.0 / 1.0", "-", "-"]]
