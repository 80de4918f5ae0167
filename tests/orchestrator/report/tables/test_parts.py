"""Cells show progress where something is missing, and differences with their sign, interval and mark."""

import pytest

from envs import SCENARIOS
from orchestrator.report.tables import parts
from orchestrator.report.tables.table import MISSING, UNFINISHED, Style, TableCell
from sweeps.registry import registry

COUNTS = {"finished": 3, "planned": 8, "lacking": 0}


def text(row):
    return f"{row['acc']:.1f}%"


def test_models_are_in_the_order_of_the_registry_then_by_name_and_baselines_last():
    first, second = list(registry())[:2]

    ordered = parts.order_models(["zebra", second, "guess", "ant", first, "ant"], {"guess"})

    assert ordered == [first, second, "ant", "zebra", "guess"]


def test_only_the_papers_seven_scenarios_have_the_papers_average():
    assert parts.average_heading(list(SCENARIOS)) == "avg"
    assert parts.average_heading(list(SCENARIOS)[:3]) == "avg of 3"


@pytest.mark.parametrize(
    ("row", "cell"),
    [
        (None, MISSING),
        ({"acc": None, **COUNTS}, TableCell("3/8", style="unfinished")),
        ({"acc": 12.34, **COUNTS, "lacking": 2}, TableCell("12.3% (6/8)", 12.34, style="unfinished")),
        ({"acc": 12.34, **COUNTS}, TableCell("12.3%", 12.34)),
    ],
)
def test_a_score_shows_its_progress_until_it_is_finished(row, cell):
    assert parts.score_cell(row, text) == cell


def test_an_average_is_unfinished_until_every_planned_scenario_is(run_data):
    row = {"model": "uniform", "condition": "hint", "protocol": "mcqa", "acc": 12.34, "ps": 0.56}

    assert parts.average_cell(run_data, None) == MISSING
    assert parts.average_cell(run_data, {**row, "acc": None, "complete": 3}) == UNFINISHED
    assert parts.average_cell(run_data, {**row, "complete": 7}) == TableCell("12.3 / 0.6", 12.34)
    assert parts.average_cell(run_data, {**row, "complete": 7}, text) == TableCell("12.3%", 12.34)
    style: Style = "unfinished"
    shown = TableCell("12.3 / 0.6 (6 of 7 scenarios)", 12.34, style=style)
    assert parts.average_cell(run_data, {**row, "complete": 6}) == shown


def test_a_change_is_starred_if_it_is_significant_and_missing_if_there_is_no_pair():
    row = {"difference": -1.26, "difference_low": -2.0, "difference_high": 0.34, "p_holm": 0.04, "equal_p_holm": 0.2}

    assert parts.change_cell(None) == parts.change_cell({**row, "difference": None}) == MISSING
    assert parts.change_cell(row) == TableCell("\u22121.3*", -1.26)
    assert parts.change_cell({**row, "p_holm": 0.06}) == TableCell("\u22121.3", -1.26)
    assert parts.change_cell({**row, "p_holm": None}, interval=True).text == "\u22121.3 (\u22122.0 to +0.3)"


def test_numbers_have_one_decimal_and_none_is_missing():
    assert parts.number_cell(1.26) == TableCell("1.3", 1.26) and parts.number_cell(None) == MISSING
    assert parts.signed_cell(1.26) == TableCell("+1.3", 1.26) and parts.signed_cell(None) == MISSING
    assert parts.signed_cell(1.26, 2) == TableCell("+1.26", 1.26)
    assert parts.one_decimal({"acc": 1.26}, "acc") == "1.3"
    assert parts.one_decimal({"acc": None}, "acc") == parts.one_decimal(None, "acc") == "-"
    assert parts.acc_and_ps({"acc": 1.26, "ps": 0.04}) == "1.3 / 0.0"
