"""Titles and cells of open-ended answers: what the judge read, what it did not, and what corrects it."""

from orchestrator.report.tables import open_ended
from orchestrator.report.tables.table import MISSING, TableCell


def test_share_has_its_interval_beside_it():
    row = {"raw": 41.26, "raw_low": 40.04, "raw_high": 45.0}

    assert open_ended._share_cell(row, "raw") == TableCell("41.3", 41.26, "40.0 to 45.0")
    assert open_ended._share_cell({**row, "raw": None}, "raw") is MISSING


def test_no_answers_have_no_averages(run_data):
    table, averages = open_ended.open_ended_table(run_data), open_ended.open_ended_averages(run_data)

    assert (table.name, table.title, table.rows) == ("open-ended", "", ())
    assert averages.is_empty() and averages.columns == [
        "model", "condition", "protocol", "category", "category_low", "category_high", "suggestion", "suggestion_low",
        "suggestion_high", "aggregate", "aggregate_low", "aggregate_high",
    ]  # fmt: skip
