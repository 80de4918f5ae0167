"""Tables of replies, malformed calls and hard samples: whole lines, titles and notes of planted counts."""

import polars as pl

from orchestrator.report.tables import behavior
from orchestrator.report.tables.table import TableCell
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def test_every_kind_has_a_heading():
    assert list(behavior.KIND_COLUMNS)[-1] == "same_letter"
    assert behavior.KIND_COLUMNS["same_letter"] == "always the same letter"


def kind_rows(*rows):
    zero = dict.fromkeys(behavior.KIND_COLUMNS, 0.0)
    names = {"model": "m", "condition": "hint", "replies": 10, "unread": 0}
    return pl.DataFrame([{**names, **zero, **row} for row in rows])


def test_kinds_are_weighed_by_replies_and_marked_above_five_percent(run_data, monkeypatch):
    first, second = list(behavior.KIND_COLUMNS)[:2]
    rows = kind_rows(
        {first: 10.0, second: 5.0, "unread": 1200},
        {"replies": 30, first: 4.0, second: 5.0},
        {"model": "n", first: 5.04},
    )
    monkeypatch.setattr(behavior, "reply_kinds", lambda _: rows)
    table = behavior.reply_kinds_table(run_data)

    # (10 x 10% + 30 x 4%) / 40 = 5.5%; 5% is not above 5%
    assert [[cell.text for cell in row[:4]] for row in table.rows] == [
        ["m, hint", "40", "5.5 !", "5.0"], ["n, hint", "10", "5.0 !", "0.0"],
    ]  # fmt: skip
    assert table.rows[0][1:4] == (TableCell("40", 40), TableCell("5.5 !", 5.5), TableCell("5.0", 5.0))
    assert table.notes == (
        f"m, hint: 6% {behavior.KIND_COLUMNS[first]}",
        f"n, hint: 5% {behavior.KIND_COLUMNS[first]}",
        "1,200 replies were not looked at: their samples are missing (report --data DIR)",
    )
    assert table.title == ("kinds of replies that the benchmark's reading hides, percent of all replies (! above 5%)")
    assert [column.name for column in table.columns] == ["model", "replies", *behavior.KIND_COLUMNS.values()]
    assert table.name == "reply-kinds" and table.numbers is rows


def test_kinds_without_any_have_no_table(run_data, monkeypatch):
    for rows in (kind_rows({}), pl.DataFrame()):
        monkeypatch.setattr(behavior, "reply_kinds", lambda _, rows=rows: rows)
        table = behavior.reply_kinds_table(run_data)
        assert (table.name, table.rows, table.title) == ("reply-kinds", (), "")


def test_hard_sample_links_to_its_example():
    row = {
        "right": 1, "answers": 8, "share": 12.5, "share_low": 2.26, "share_high": 47.1, "scenario": "QD", "sample_id": 7,
        "example": "m/QD/zero shot/0007-ab",
    }  # fmt: skip

    assert behavior._hard_sample(row) == (
        TableCell("QD 0007"), TableCell("1 of 8", 0.125), TableCell("12.5 (2.3 to 47.1)", 12.5),
        TableCell("m/QD/zero shot/0007-ab", link="#episode=m/QD/zero%20shot/0007-ab"),
    )  # fmt: skip


def test_extremes_of_a_scenario_are_counted():
    samples = pl.DataFrame(
        {"scenario": ["QD"] * 3, "all_wrong": [True, True, False], "all_right": [False, False, True]}
    )

    assert behavior._count_extremes(samples) == (
        "QD: of 3 samples, 2 have no right answer and 1 have no wrong answer; samples with equal intervals are in the order of "
        "their ids"
    )


def test_hard_samples_table_has_its_headings(run_data):
    table = behavior.hard_samples_table(run_data)

    assert (table.name, [column.name for column in table.columns]) == (
        "hard-samples", ["sample", "right", "percent", "episode"]
    )  # fmt: skip
    assert table.title == (
        "hardest samples: right answers over all models and conditions, their percentage (95% interval, answers of one model as "
        "one cluster), and one episode to look at"
    )
    assert behavior.HARDEST == 5


def test_share_of_malformed_calls_is_of_all_turns(run_data, monkeypatch):
    counts = dict.fromkeys(behavior.COUNTS, 0)
    names = {"model": "m", "condition": "hint", "scenario": "QD", "cell": "c", "turns": 0}
    last = behavior.COUNTS[-1]
    rows = pl.DataFrame(
        [
            {**names, **counts, "turns": 1000, "malformed": 3, last: 3},
            {**names, **counts, "turns": 1000, "malformed": 2, last: 2},
            {**names, **counts, "model": "oracle"},
        ]
    )
    monkeypatch.setattr(behavior, "malformed_calls", lambda _: rows)
    table = behavior.malformed_calls_table(run_data)

    assert [row[0].text for row in table.rows] == ["m, hint", "oracle, hint"] and table.ranked == 1
    assert [row[1].text for row in table.rows] == ["0.2% of 2,000", "-"]
    assert [row[-1].text for row in table.rows] == ["5", "0"]
    assert (table.name, [column.name for column in table.columns]) == ("tools-malformed", ["model", *behavior.COUNTS])
    assert table.title == "tool calls: malformed calls, percent of all turns; number of each kind"
    assert "cell" not in table.numbers.columns


def test_episodes_without_a_score_have_no_malformed_call(run_data):
    empty = behavior.malformed_calls(replace_episodes(run_data, []))

    assert empty.is_empty() and empty.columns == ["model", "condition", "scenario", "cell", "turns", *behavior.COUNTS]


def test_columns_of_held_time_are_explained():
    assert [column.about for column in behavior.TIME_COLUMNS] == [
        "", "of one replica", "hours of all replicas, over all attempts", *["share of the held time"] * len(behavior.HELD),
        "hours in which replicas waited for Ray to place and start them; not in held",
    ]  # fmt: skip
