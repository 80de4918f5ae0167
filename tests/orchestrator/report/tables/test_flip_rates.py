"""What changed when a share was played again is shown with its interval and counts; unreadable files count as absent."""

from dataclasses import replace

import polars as pl

from orchestrator.report.tables.flip_rates import (
    CELLS,
    RATES,
    TITLE,
    changed_cell_table,
    flip_rate_table,
    measured_flips,
    rate_table,
    read_rates,
)

REPLY = {"reply_changed": 1_234, "reply_of": 5_000, "reply_percent": 24.68, "reply_low": 20.0, "reply_high": 30.04}
ROW = {**dict.fromkeys(RATES), "setting": "batch 1", "model": "m", "episodes": 1_000, **REPLY}
SHOWN = ["24.7 (20.0 to 30.0), 1,234 of 5,000", "-", "-", "-", "-"]


def rates(*rows):
    return pl.DataFrame(rows, schema=RATES)


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_rates_of_a_command_are_shown_by_setting_and_model():
    table = rate_table(rates(ROW))

    assert (table.name, table.title) == ("flip-rate", TITLE)
    assert [(column.name, column.number) for column in table.columns] == [
        ("setting", False), ("model", False), ("episodes", True), ("changed replies %", True), ("changed verdicts %", True),
        ("changed endings %", True), ("changed right or not %", True), ("changed cells %", True),
    ]  # fmt: skip
    assert texts(table) == [["batch 1", "m", "1,000", *SHOWN]] and table.rows[0][3].value == 24.68


def test_the_report_shows_the_rates_of_every_share(tmp_path, run_data):
    for share, row in (("10%", ROW), ("5%", {**ROW, "model": "n"})):
        folder = tmp_path / "flip-rate" / share
        folder.mkdir(parents=True)
        rates(row).write_csv(folder / "rates.csv")
    for share, content in (("torn", "setting,model\n1"), ("pipe", None)):
        path = tmp_path / "flip-rate" / share / "rates.csv"
        path.parent.mkdir()
        path.mkdir() if content is None else path.write_text(content)

    table = flip_rate_table(replace(run_data, folder=tmp_path))

    assert read_rates(tmp_path)["share"].to_list() == ["10%", "5%"]
    assert texts(table) == [["m, batch 1 (10%)", *SHOWN], ["n, batch 1 (5%)", *SHOWN]]
    assert [column.name for column in table.columns][:2] == ["model, setting (share)", "changed replies"]
    assert table.numbers.columns == ["share", *RATES]
    assert flip_rate_table(run_data).rows == () and read_rates(run_data.folder).columns == ["share", *RATES]


def test_changed_cells_are_shown_with_accuracies_and_counts():
    row = {
        "setting": "workers 2", "cell": "m/ROD/hint", "model": "m", "scenario": "ROD", "condition": "hint", "protocol": "mcqa",
        "n": 1_200, "acc_before": 50.04, "acc_after": 48.96, "difference": -1.08, "difference_low": -2.0, "difference_high": 0.02,
        "lost": 1_100, "won": 3,
    }  # fmt: skip
    table = changed_cell_table(pl.DataFrame([row], schema=CELLS))

    assert table.name == "flip-rate-cells" and table.title.startswith("cells with changed answers: acc on the same")
    assert [(column.name, column.number) for column in table.columns] == [
        ("setting", False), ("cell", False), ("n", True), ("acc before", True), ("acc after", True), ("difference", True),
        ("lost", True), ("won", True),
    ]  # fmt: skip
    assert texts(table) == [
        ["workers 2", "m/ROD/hint", "1,200", "50.0", "49.0", "\u22121.1 (\u22122.0 to 0.0)", "1,100", "3"]
    ]


def test_a_models_bound_is_the_highest_of_its_shares(tmp_path):
    for share, model, high in (("5%", "m", 1.5), ("10%", "m", 2.5), ("20%", "m", 2.0), ("30%", "n", None)):
        folder = tmp_path / "flip-rate" / share
        folder.mkdir(parents=True)
        rates({**ROW, "model": model, "correct_high": high}).write_csv(folder / "rates.csv")

    assert measured_flips(tmp_path) == {"m": 2.5}
    assert measured_flips(tmp_path / "none") == {}
