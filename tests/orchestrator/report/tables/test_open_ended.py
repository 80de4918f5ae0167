"""Titles and cells of open-ended answers: what the judge read, what it did not, and what corrects it."""

import polars as pl
import pytest

from orchestrator.report.measures.judge_correction import SOURCES
from orchestrator.report.tables import open_ended
from orchestrator.report.tables.table import MISSING, TableCell

BEGIN = "open-ended: either / category / suggestion, percent of answers; judge"


@pytest.fixture
def judged(run_data, monkeypatch):
    """A function that gives the run such counts of answers, verdicts and answers without one."""

    def give(answered, judged, unjudged):
        counts = {"protocol": "oeg", "answered": answered, "judged": judged, "unjudged": unjudged}
        rows = [counts, {**counts, "protocol": "mcqa"}]
        monkeypatch.setitem(run_data.__dict__, "rows", pl.DataFrame(rows))
        return run_data

    return give


def test_title_counts_what_has_no_verdict(judged):
    assert open_ended._title(judged(2000, 1998, 2)) == f"{BEGIN} nobody yet; without a verdict: 2 of 2,000, left out"
    assert open_ended._title(judged(2000, 500, 0)) == (
        f"{BEGIN} nobody yet; without a verdict: 0 of 2,000, left out; 1,500 of 2,000 answers not read yet"
    )


def test_title_names_the_judge_and_the_packages_way(judged):
    run = judged(3, 2, 1)
    object.__setattr__(run, "judge", "qwen/p-1")
    object.__setattr__(run, "strict", True)
    try:
        assert open_ended._title(run) == f"{BEGIN} qwen/p-1; without a verdict: counted as zeros (the package's way)"
    finally:
        object.__setattr__(run, "judge", "")
        object.__setattr__(run, "strict", False)


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


def corrected(run_data, monkeypatch, rows):
    monkeypatch.setattr(open_ended, "corrected_shares", lambda _: pl.DataFrame(rows))
    return open_ended.corrected_table(run_data)


def shares(source, value):
    return {source: value, f"{source}_low": value - 1, f"{source}_high": value + 1}


def test_corrected_shares_are_of_the_average_or_of_the_only_scenario(run_data, monkeypatch):
    raw, gold, labels = SOURCES
    names = {"model": "m", "condition": "hint", "scenario": "avg", "bit": "aggregate", "labelled": 1200}
    full = {**names, **shares(raw, 41.26), **shares(gold, 40.0), **shares(labels, 39.0), "labels_to_halve": 3600}
    rows = [
        full, {**full, "scenario": "QD", raw: 0.0},
        {**full, "model": "n", "scenario": "QD", gold: None, "labels_to_halve": None},
    ]  # fmt: skip
    table = corrected(run_data, monkeypatch, rows)

    three = [
        TableCell("41.3", 41.26, "40.3 to 42.3"), TableCell("40.0", 40.0, "39.0 to 41.0"),
        TableCell("39.0", 39.0, "38.0 to 40.0"),
    ]  # fmt: skip
    assert table.rows == (
        (TableCell("m, hint, aggregate"), *three, TableCell("1,200"), TableCell("3,600")),
        (TableCell("n, hint, aggregate"), three[0], MISSING, three[2], TableCell("1,200"), TableCell("-")),
    )
    assert (table.name, table.title) == (
        "open-ended-corrected",
        "open-ended, averaged over scenarios: percent of answers as the judge counts them, corrected by the gold check (if it "
        "errs as it did there), and by labelled answers of this run; 95% intervals",
    )
    assert [column.name for column in table.columns] == [
        "model", "as judged", "by the gold check", "by labels", "labels", "labels that halve the interval",
    ]  # fmt: skip
    alone = [{**row, gold: None, labels: None} for row in rows]
    assert not corrected(run_data, monkeypatch, alone).rows, "nothing corrects the judge"
