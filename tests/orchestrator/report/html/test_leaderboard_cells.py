"""Cells of the leaderboard: rank with its bounds, accuracy with its link, progress; and addresses of pages."""

from pathlib import Path

import polars as pl

from orchestrator.report.comparisons.leaderboard import Entrant, Leaderboard
from orchestrator.report.html import leaderboard_page
from orchestrator.report.tables.table import MISSING, TableCell

RANK = {"rank": 2, "rank_low": 1, "rank_high": 3, "p_best": 0.256}
CELL = {
    "model": "m", "scenario": "QD", "condition": "zero shot", "acc": 41.26, "acc_low": 30.4, "acc_high": 52.6, "finished": 3,
    "planned": 4,
}  # fmt: skip
ROW = {
    **RANK, "name": "m", "condition": "hint", "average": 40.0, "acc": 41.26, "acc_low": 30.4, "acc_high": 52.6, "ps": 1.26,
    "ps_low": 1.0, "ps_high": 1.5, "finished": 3, "planned": 4,
}  # fmt: skip


def test_rank_has_bounds_and_among_four_a_probability():
    assert leaderboard_page._rank(RANK, 4) == (
        TableCell("2", 2), TableCell("1–3", 1), TableCell("26%", 0.256)
    )  # fmt: skip
    assert leaderboard_page._rank(RANK, 3)[2] is MISSING
    assert leaderboard_page._rank({**RANK, "rank": None}, 4) == (MISSING,) * 3


def test_accuracy_links_to_the_episodes_of_its_run():
    entrant = Entrant("m (two)", "m", "two", "model")

    assert leaderboard_page._accuracy(CELL, entrant, "two/report.html") == TableCell(
        "41.3", 41.26, "30–53", "unfinished", "two/report.html#model=m&scenario=QD&condition=zero%20shot"
    )
    assert leaderboard_page._accuracy({**CELL, "planned": 3}, entrant, "") == TableCell("41.3", 41.26, "30–53")


def board(*rows, runs=("one",), entrants=("model", "person", "baseline")):
    names = ("m", "ada", "guess")
    cells = pl.DataFrame([{**CELL, "condition": "hint"}, {**CELL, "condition": "hint", "scenario": "ROD", "acc": None}])
    entries = {name: Entrant(name, name, "one", kind) for name, kind in zip(names, entrants, strict=True)}
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    return Leaderboard(entries, frame, cells, ("ROD", "QD"), {run: Path(run) for run in runs}, (), ("note",))


def table_of(leaderboard, title="Models and people"):
    return leaderboard_page._table(leaderboard, leaderboard.rows, {"one": ""}, "hint", title)


def test_a_line_has_every_column_that_the_board_needs():
    person = {**ROW, "name": "ada", "rank": None, "average": None, "finished": 4}
    table = table_of(board(ROW, person, runs=("one", "two")))

    assert [column.name for column in table.columns] == [
        "Model", "Avg %", "Rank", "Ranks", "P(best)", "Shared %", "ps", "ROD %", "QD %", "Played", "Run",
    ]  # fmt: skip
    assert [[cell.text for cell in line] for line in table.rows] == [
        ["m", "41.3", "2", "1–3", "-", "40.0", "1.3", "-", "41.3", "3/4", "one"],
        ["ada", "41.3", "-", "-", "-", "-", "1.3", "-", "-", "4", "one"],
    ]
    assert [line[0].note for line in table.rows] == ["", "a person"]
    assert (table.name, table.title, table.search, table.notes) == ("hint", "Models and people", True, ("note",))
    assert table.rows[0][1].span == (41.26, 30.4, 52.6) and table.rows[0][6].span is None


def test_columns_that_say_nothing_are_left_out():
    alone = {**ROW, "rank": None, "average": 41.26 + 1e-10}
    table = table_of(board(alone))

    assert [column.name for column in table.columns] == ["Model", "Avg %", "ps", "ROD %", "QD %", "Played"]
    assert not table.search and not table_of(board(ROW, ROW), "Baselines").search


def test_address_of_a_report_is_relative_and_quoted(tmp_path):
    folder = tmp_path / "my run"
    folder.mkdir()
    target = tmp_path / "boards" / "board.html"

    assert leaderboard_page._report_address(folder, target) == ""
    (folder / "report.html").write_text("")
    assert leaderboard_page._report_address(folder, target) == "../my%20run/report.html"


def test_a_section_parts_baselines_from_models_and_people():
    leaderboard = board(ROW, {**ROW, "name": "guess"}, {**ROW, "name": "ada"}, {**ROW, "condition": "own one"})
    section = leaderboard_page._section(leaderboard, "hint", {"one": ""})

    assert (section.name, section.title) == ("condition-hint", "hint")
    assert [line[0].text for line in section.table.rows] == ["m", "ada"]
    assert [line[0].text for line in section.baselines.rows] == ["guess"]
    assert (section.table.name, section.baselines.name, section.baselines.title) == (
        "hint", "hint-baselines", "Baselines"
    )  # fmt: skip
    assert leaderboard_page._section(leaderboard, "own one", {"one": ""}).name == "condition-own-one"
