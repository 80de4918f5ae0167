"""The tables of cells on the page: measures with intervals, progress, shares of answers, cost, and the paper's figures."""

from urllib.parse import parse_qs

import polars as pl
import pytest

from orchestrator.report.comparisons.paper_comparison import SCHEMA
from orchestrator.report.html.cells import (
    CELLS,
    PAPER,
    RESOURCES,
    cells_table,
    measure_cell,
    paper_table,
    played_cell,
    progress_style,
)
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.table import MISSING, TableCell
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def run_data(demo_data, tmp_path_factory):
    """A policy that always asks, one that abstains and one that draws, in two scenarios, with the last two episodes missing."""
    wanted = sweep(demo_data, ["always-ask", "uniform", "abstain"], ["zero-shot", "hint"], scenarios=["QD", "ROD"])
    return read_run(play_sweep(tmp_path_factory.mktemp("cells") / "run", wanted, only=118))


@pytest.fixture(scope="module")
def lines(run_data):
    """(Model, scenario, condition) -> column -> cell."""
    table = cells_table(run_data)
    assert (table.name, table.search) == ("cells", True)
    names = [column.name for column in CELLS]
    return {tuple(cell.text for cell in row[:3]): dict(zip(names, row, strict=True)) for row in table.rows}


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (
            CELLS,
            "Acc %|First turn %|ps|Answers|vs zero-shot|Lift|Efficiency|Loops %|Readable|Played|Overflow|Truncated|Errors",
        ),
        (RESOURCES, "Played|Tokens|Cost|GPU-hours|kWh"),
        (PAPER, "Measure|Ours|Published|Difference|Episodes|Agrees"),
    ],
)
def test_headings_follow_the_names_of_a_cell(columns, names):
    assert [column.name for column in columns] == ["Model", "Scenario", "Condition", *names.split("|")]
    words = [column.name for column in columns if not column.number]
    assert words == ["Model", "Scenario", "Condition", *({"Answers", "Measure"} & set(names.split("|")))]
    assert [column.name for column in columns if column.filter] == [name for name in words if name != "Answers"]


def test_lines_are_in_the_papers_order(lines):
    assert [names[1:] for names in lines][:4] == [
        ("ROD", "zero-shot"),
        ("ROD", "hint"),
        ("QD", "zero-shot"),
        ("QD", "hint"),
    ]


def test_measures_are_those_of_the_rows(run_data, lines):
    for row in run_data.rows.iter_rows(named=True):
        cells = lines[row["model"], row["scenario"], row["condition"]]
        assert cells["Acc %"].value == row["acc"] and cells["First turn %"].value == row["acc_first"]
        assert (cells["ps"].value, cells["Loops %"].value) == (row["ps"], row["loops"])
        assert cells["Acc %"].span == (row["acc"], row["acc_low"], row["acc_high"]) and cells["ps"].span is None
        assert cells["Errors"] == TableCell("0", 0) and cells["Overflow"] == TableCell("0", 0)
        assert parse_qs(cells["Played"].link[1:]) == {name: [row[name]] for name in ("model", "scenario", "condition")}


def test_answers_are_stacked_shares(lines):
    abstains, asks = (lines[model, "ROD", "zero-shot"]["Answers"] for model in ("abstain", "always-ask"))

    assert (
        abstains.text == "abstention 100%" and abstains.shares == (("abstention", 0.0, 100.0),) and abstains.value == 0
    )
    assert asks.shares[0][0] == "suggestion" and asks.shares[0][1] == 0 and asks.value > 50
    shares = lines["uniform", "ROD", "zero-shot"]["Answers"].shares
    ends = [start + width for _, start, width in shares]
    assert len(shares) > 2 and [start for _, start, _ in shares] == pytest.approx([0, *ends[:-1]])
    assert ends[-1] == pytest.approx(100, abs=0.01)


def test_changes_stand_beside_the_condition_that_changed(lines):
    assert lines["uniform", "ROD", "zero-shot"]["vs zero-shot"] == MISSING
    assert lines["abstain", "ROD", "hint"]["vs zero-shot"] == TableCell("0.0", 0.0)


def test_unfinished_rows_are_pale_and_say_how_far_they_are(run_data, lines):
    unfinished = run_data.rows.filter(pl.col("finished") < pl.col("planned"))

    assert unfinished["planned"].sum() - unfinished["finished"].sum() == 2
    for row in unfinished.iter_rows(named=True):
        cell = lines[row["model"], row["scenario"], row["condition"]]["Played"]
        assert cell.text == f"{row['finished']}/{row['planned']}" and cell.style == "unfinished"
        assert cell.value == row["finished"] / row["planned"]


def test_a_measure_has_its_interval_unless_it_has_no_value():
    row = {"ps": 1.26, "ps_low": 1.0, "ps_high": 2.04, "finished": 1_000, "planned": 1_001}

    assert measure_cell(row, "ps") == TableCell("1.3", 1.26, "1.0–2.0", "unfinished")
    assert measure_cell(row, "ps", span=True).span == (1.26, 1.0, 2.04)
    assert measure_cell({**row, "ps": None}, "ps") is MISSING
    assert (played_cell(row).text, progress_style(row)) == ("1,000/1,001", "unfinished")
    assert (played_cell({**row, "planned": 1_000}).text, progress_style({**row, "planned": 1_000})) == ("1,000", "")


def test_published_figures_stand_beside_ours():
    row = dict.fromkeys(SCHEMA) | {
        "model": "m", "paper": "M", "scenario": "ROD", "condition": "hint", "protocol": "mcqa", "measure": "acc",
        "planned": 100, "finished": 100, "ours": 41.25, "low": 32.0, "high": 51.5, "published": 43.0, "difference": -1.75,
        "episodes": -2, "inside": False, "exact": True, "errors": 0, "apart": "",
    }  # fmt: skip
    rows = pl.DataFrame(
        [row, {**row, "measure": "ps", "inside": True}, {**row, "measure": "x", "published": None}], SCHEMA
    )
    table = paper_table(rows)

    assert [[cell.text for cell in line] for line in table.rows] == [
        ["m", "ROD", "hint", "acc", "41.2", "43.0", "−1.8", "−2", "no"],
        ["m", "ROD", "hint", "ps", "41.2", "43.0", "−1.8", "−2", "yes"],
    ]
    assert [(line[-1].value, line[-1].style) for line in table.rows] == [(0, "warn"), (1, "")]
    assert table.rows[0][4].note == "32.0–51.5" and table.columns == PAPER
    assert (table.name, table.search) == ("paper", True)
    assert paper_table(rows.clear()) is None and not paper_table(rows.tail(1)).search
