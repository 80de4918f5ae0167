"""Single cells of the page's tables: changes, lift, readable replies, limits and cost."""

import polars as pl
import pytest

from envs.types import Ending
from orchestrator.report.html import cells
from orchestrator.report.tables.table import MISSING, TableCell
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

NAMES = (TableCell("m", "m"), TableCell("QD", "QD"), TableCell("hint", "hint"))
COST = {
    "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "played": 2000, "prompt_tokens": 1200,
    "reply_tokens": 34, "cost": 0.12345, "gpu_hours": 1.23456, "kwh": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("p", "difference", "text", "style"),
    [(0.04, 1.26, "+1.3*", "up"), (0.04, -1.26, "−1.3*", "down"), (0.06, 1.26, "+1.3", ""), (None, -1.26, "−1.3", "")],
)
def test_significant_changes_are_starred_and_directed(p, difference, text, style):
    assert cells._change({"p_holm": p, "difference": difference}) == TableCell(text, difference, style=style)
    assert cells._change(None) is MISSING


def test_lift_has_an_interval_if_chance_is_exact():
    row = {"lift": 1.26, "lift_low": -1.0, "lift_high": 3.5}

    assert cells._lift(row) == TableCell("+1.3", 1.26, "−1.0 to +3.5")
    assert cells._lift({**row, "lift_low": None}) == TableCell("+1.3", 1.26)
    assert cells._lift({**row, "lift": None}) is cells._lift(None) is MISSING


def test_readable_replies_are_of_the_unparsable_ones():
    assert cells._readable({"readable": 1200, "unparsable": 3400}) == TableCell("1,200 of 3,400", 1200)
    assert cells._readable({"readable": 0, "unparsable": 1}) == TableCell("0 of 1", 0)
    assert cells._readable({"readable": 0, "unparsable": 0}) is cells._readable(None) is MISSING


def test_episodes_cut_short_have_the_upper_bound():
    assert cells._cut_short({"overflow": 0}, "overflow") == TableCell("0", 0)
    assert cells._cut_short({"overflow": 1200, "acc_bound": 51.26}, "overflow") == TableCell(
        "1,200", 1200, "acc ≤ 51.3", "warn"
    )


def played(row):
    return cells.played_cell(row, cells._episodes_link(row))


def test_played_opens_the_browser_unless_nothing_was_played():
    row = {"model": "a b", "scenario": "QD", "condition": "hint", "finished": 1, "planned": 4}

    assert played(row) == TableCell("1/4", 0.25, style="unfinished", link="#model=a+b&scenario=QD&condition=hint")
    assert played({**row, "finished": 0}) == TableCell("0/4", 0.0, style="unfinished")
    assert played({**row, "finished": 0, "planned": 0}) == TableCell("0", 0.0)


def test_protocol_stands_beside_the_condition():
    assert cells._name_cells({**COST, "protocol": "tools"})[2] == TableCell("hint (tools)", "hint (tools)")
    assert cells._name_cells(COST) == NAMES


def test_cost_is_given_per_thousand_episodes():
    assert cells._resources(COST) == (
        *NAMES, TableCell("2,000", 2000), TableCell("1,234", 1234), TableCell("0.1235", 0.12345, "0.06"),
        TableCell("1.235", 1.23456), MISSING,
    )  # fmt: skip
    assert cells._resources({**COST, "played": 0})[5] == TableCell("0.1235", 0.12345)
    assert cells._resources({**COST, "cost": 0.0, "kwh": 0.5})[5:] == (
        MISSING, TableCell("1.235", 1.23456), TableCell("0.500", 0.5)
    )  # fmt: skip


@pytest.mark.parametrize("kept", ["prompt_tokens", "cost", "gpu_hours", None])
def test_a_run_of_policies_has_no_table_of_cost(run_data, monkeypatch, kept):
    nothing = {"prompt_tokens": 0, "cost": 0.0, "gpu_hours": None}
    row = {**COST, **{name: value for name, value in nothing.items() if name != kept}}
    monkeypatch.setattr(cells, "resources", lambda _: pl.DataFrame([row]))
    table = cells.resources_table(run_data)

    assert (table is None) == (kept is None)
    if table:
        assert (table.name, table.title, len(table.rows), table.search) == ("took", "Cost of each cell", 1, True)


def test_shares_of_answers_need_an_answer():
    shares = {
        "share_suggestion": 50.0, "share_category": 40.0, "share_right": 30.0, "share_abstention": 0.0004,
        "share_unparsable": 10.0,
    }  # fmt: skip
    cell = cells._answers(shares)

    assert cell.text == "suggestion 50%, right category 30%, wrong category 10%, unparsable 10%"
    assert [start for _, start, _ in cell.shares] == [0.0, 50.0, 80.0, 90.0] and cell.value == 50.0
    assert cells._answers({**shares, "share_suggestion": None}) is MISSING


def test_columns_say_what_they_hold():
    about = {column.name: column.about for column in (*cells.CELLS, *cells.RESOURCES[3:], *cells.PAPER[3:])}

    assert about["First turn %"] == (
        "share of scored episodes that end correct at the first turn, without any help"
    )  # fmt: skip
    assert about["vs zero-shot"] == (
        "points of accuracy on the same samples; * exact McNemar, Holm over all models, p < 0.05"
    )
    assert about["Answers"] == (
        "shares of the answers: suggestion, right category, wrong category, abstention, unparsable"
    )
    assert about["Cost"] == "paid to the service, in the currency of its prices; in brackets, per 1,000 episodes"
    assert about["Agrees"] == (
        "no episode differs, up to rounding; if decoded differently or open-ended: it lies in our interval"
    )
    assert all(about[name] for name in about if name not in {"Model", "Scenario", "Condition", "Measure"} | {
        "Ours", "Published", "Difference"
    })  # fmt: skip


def test_errors_and_their_cells_are_marked(run_data):
    endings = ["refused", "failed", "correct", "wrong"]
    run = replace_episodes(run_data, [episode(n, "m/QD/hint", Ending(ending)) for n, ending in enumerate(endings)])
    (row,) = cells.cells_table(run).rows

    assert row[:3] == NAMES and row[-1] == TableCell("2", 2, style="warn")
    assert [cell.text for cell in row[-4:]] == ["4", "0", "0", "2"] and (row[3].text, row[3].value) == ("50.0", 50.0)
    assert row[-4].link == "#model=m&scenario=QD&condition=hint" and row[-4].value == 1.0
