"""Cells show progress where something is missing, and differences with their sign, interval and mark."""

import polars as pl
import pytest

from envs import SCENARIOS
from orchestrator.report.tables import parts
from orchestrator.report.tables.table import MISSING, UNFINISHED, Style, TableCell
from sweeps.registry import registry
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

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


def test_progress_is_of_verdicts_where_there_are_answers():
    assert parts.progress_text({**COUNTS, "answered": 0}) == parts.progress_text(COUNTS) == "3/8"
    assert parts.progress_text({**COUNTS, "answered": 1}) == "0 verdicts of 1 answer"
    assert parts.progress_text({**COUNTS, "answered": 1200}) == "0 verdicts of 1,200 answers"


def test_a_score_is_of_its_measure():
    row = {"acc": None, "aggregate": 50.0, **COUNTS}

    assert parts.score_cell(row, lambda _: "half", "aggregate") == TableCell("half", 50.0)


def test_limits_are_signed_and_ranges_are_not():
    row = {"acc_low": -1.26, "acc_high": 45.04}

    assert parts.format_limits(row, "acc") == "\u22121.3 to +45.0"
    assert parts.format_range(row, "acc") == "-1.3–45.0" and parts.format_range(row, "acc", 0) == "-1–45"
    assert parts.format_range({"acc_low": None, "acc_high": None}, "acc") == ""


def test_a_change_within_the_margin_has_an_equal_sign_unless_it_is_starred():
    row = {"difference": 0.4, "p_holm": 0.06, "equal_p_holm": 0.04}

    assert parts.change_cell(row).text == "+0.4=" and parts.change_cell({**row, "p_holm": 0.04}).text == "+0.4*"


def planted(run_data):
    """Two models, of which one lacks a scenario, and a baseline."""
    names = [("zebra", "QD"), ("zebra", "ROD"), ("ant", "ROD"), ("oracle", "ROD")]
    rows = [episode(0, f"{model}/{scenario}/hint", correct=model != "ant") for model, scenario in names]
    return replace_episodes(run_data, [*rows, episode(0, "ant/ROD/zero-shot")])


def test_rows_are_split_by_model_and_condition_in_order(run_data):
    run = planted(run_data)
    split = [
        (model, condition, part["cell"].to_list()) for model, condition, part in parts.model_conditions(run, run.rows)
    ]

    assert split == [
        ("ant", "zero-shot", ["ant/ROD/zero-shot"]),
        ("ant", "hint", ["ant/ROD/hint"]),
        ("zebra", "hint", ["zebra/QD/hint", "zebra/ROD/hint"]),
        ("oracle", "hint", ["oracle/ROD/hint"]),
    ]


def test_lines_have_a_cell_for_every_scenario(run_data):
    rows = planted(run_data).rows.filter(condition="hint")
    ant, zebra = (
        parts.scenario_cells(rows.filter(model=name), ["ROD", "QD"], lambda row: TableCell(row["cell"]))
        for name in ("ant", "zebra")
    )

    assert ant == [TableCell("ant/ROD/hint"), MISSING]
    assert zebra == [TableCell("zebra/ROD/hint"), TableCell("zebra/QD/hint")]


def test_models_are_ranked_above_baselines_but_not_the_oracle(run_data):
    def styles(**values):
        cells = {name: [TableCell("", float(value))] for name, value in values.items()}
        table = parts.ranked_table(planted(run_data), "x", "title", ["ROD"], cells, pl.DataFrame(), "mcqa")
        assert [column.name for column in table.columns] == ["model", "ROD"] and table.title == "title"
        return [row[1].style for row in table.rows], table.ranked

    assert styles(zebra=60, ant=50, guess=40, oracle=100) == (["best", "second", "", ""], 2)
    assert styles(zebra=60, ant=50, guess=50, oracle=100) == (["best", "", "", ""], 2)
    assert styles(guess=40, oracle=100) == (["second", "best"], 0), "only baselines were played"


ERRORS = {
    "cell": "m/QD/hint", "protocol": "mcqa", "finished": 200, "scored": 198, "errors": 2, "unprocessable": 1, "refused": 1,
    "failed": 0, "overflow": 0, "truncated": 0, "acc": 50.0, "acc_bound": 51.5, "loops_bound": 1.26,
}  # fmt: skip


def error_notes(run_data, monkeypatch, *rows):
    monkeypatch.setitem(run_data.__dict__, "rows", pl.DataFrame(list(rows), schema_overrides={"acc": pl.Float64}))
    return parts._error_notes(run_data, "mcqa")
