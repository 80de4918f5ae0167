"""Texts on terminals and in files: widths, lost workers, and the last replies of a run folder."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from orchestrator.monitoring import console
from orchestrator.monitoring.render import format_duration, format_rate
from orchestrator.monitoring.snapshot import GroupRow, Snapshot, count_by_model, parse_snapshot


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""), (0.0, "0 s"), (119.4, "119 s"), (119.5, "2 min"), (150.0, "2 min"), (151.0, "3 min"),
        (7_169.0, "119 min"), (7_170.0, "2 h 0 min"), (19_200.0, "5 h 20 min"), (172_769.0, "47 h 59 min"),
        (172_770.0, "2 d 0 h"), (273_600.0, "3 d 4 h"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0.0, "0/s"), (0.0125, "0.75/min"), (0.1, "6/min"), (0.99, "59/min"), (1.0, "1/s"), (9.94, "9.9/s"),
        (10.0, "10/s"), (10.6, "11/s"), (4_100.0, "4,100/s"),
    ],
)  # fmt: skip
def test_a_rate_below_one_a_second_is_per_minute(rate: float, text: str) -> None:
    assert format_rate(rate) == text


def test_cells_are_counted_by_model_in_their_order() -> None:
    cells = [
        {"cell": "b/ROD/hint", "finished": 3, "planned": 5, "errors": 1},
        {"cell": "a/ROD/hint", "finished": 2, "planned": 2, "errors": 0},
        {"cell": "b/QD/hint", "finished": 1, "planned": 4, "errors": 2},
    ]
    rows = GroupRow("b", done=4, planned=9, errors=3), GroupRow("a", done=2, planned=2)

    assert count_by_model(cells) == Snapshot(0.0, 6, 11, 0.0, None, 0, rows)
    assert count_by_model([]) == Snapshot(0.0, 0, 0, 0.0, None, 0)
    assert parse_snapshot({"at": "now"}) is None and parse_snapshot(None) is None


def test_a_file_gets_a_table_as_wide_as_its_content_and_a_terminal_a_least_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("name")
    table.add_row(Text("x" * 200 + "\u202e"))
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    console.show(table, "[b]no markup\x1b")
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "name", "x" * 200 + "\\u202e", "[b]no markup\\x1b",
    ]  # fmt: skip

    monkeypatch.setenv("COLUMNS", "40")
    for least, width in ((0, 40), (60, 60)):
        console.show("y" * 100, min_width=least)
        assert max(map(len, capsys.readouterr().out.splitlines())) == width
