"""Tables of operating points: splits and played values as text, and the notes that warn of what is uncertain."""

import polars as pl
import pytest

from orchestrator.report.tables import operating
from orchestrator.report.tables.operating import splits_table_of
from orchestrator.report.tables.table import MISSING, TableCell

SPLIT = {
    "more": 1.26, "more_low": -0.5, "more_high": 3.0, "better": -2.0, "better_low": -4.0, "better_high": 0.0,
    "scenarios": 1,
}  # fmt: skip
POINT = {
    "model": "m", "scenario": None, "condition": "hint", "exact": True, "thoughts": 0, "clusters": 30,
}  # fmt: skip
EXACT = {
    "model": "m", "scenario": "QD", "condition": "hint", "point": "own", "exact_acc": 41.26, "played_acc": 40.0,
    "exact_ps": 1.234, "played_ps": 1.5, "z": -0.54, "z_ps": 2.0,
}  # fmt: skip


def test_split_table_has_a_line_per_pair_and_family():
    names = {"before": "a", "after": "b", "family": "own"}
    rows = [
        {**names, "scenario": "QD", **SPLIT},
        {**names, "scenario": "ROD", **SPLIT, "more": None},
        {**names, "scenario": None, **SPLIT},
        {**names, "family": "persistent", "scenario": "QD", **SPLIT, "better_low": None},
        {**names, "family": "persistent", "scenario": None, **SPLIT},
    ]
    table = splits_table_of(pl.DataFrame(rows), "x")

    text, limits = "+1.3 / −2.0", "−0.5 to +3.0; −4.0 to 0.0"
    assert table.rows == (
        (TableCell("a → b"), TableCell("no overlap"), TableCell(text, -2.0, limits), TableCell(f"{text} (1 of 2)", -2.0, limits)),
        (TableCell("a → b, never giving up"), MISSING, TableCell(text, -2.0, "−0.5 to +3.0; -"), TableCell(text, -2.0, limits)),
    )  # fmt: skip
    assert (table.name, [column.name for column in table.columns]) == (
        "x", ["models", "ROD", "QD", "mean of 2 scenarios"]
    )  # fmt: skip
    assert table.title == (
        "asking more / asking better: points of accuracy from moving along a curve, and from moving to another at equal numbers "
        "of suggestions; 95% intervals by a paired jackknife over samples, or their clusters where these count"
    )


def test_exact_values_stand_beside_played_ones():
    text = "41.3 / 40.0; 1.23 / 1.50"

    assert operating._exact_cell(EXACT) == TableCell(text, 41.26, "z −0.5; +2.0")
    assert operating._exact_cell({**EXACT, "z": None}) == TableCell(text, 41.26, "z +2.0")
    assert operating._exact_cell({**EXACT, "z": None, "z_ps": None}) == TableCell(text, 41.26)


def test_spread_of_played_values_by_hand():
    z = pl.DataFrame({"z": [3.0, None, 1.95, -2.0]})  # one of three within 1.96; sqrt((9 + 3.8025 + 4) / 3) is 2.367

    (note,) = operating._spread_notes(z)
    assert note == "z of acc in 3 cells: root mean square 2.37 (1 is expected), 33% within 1.96"
    assert operating._spread_notes(pl.DataFrame({"z": [None]}, schema={"z": pl.Float64})) == ()


@pytest.mark.parametrize(
    ("row", "differs"),
    [
        ({"z": 3.0, "z_ps": -3.0}, False),
        ({"z": -3.1, "z_ps": None}, True),
        ({"z": None, "z_ps": 3.1}, True),
        ({"z": None, "z_ps": None}, False),
        ({"point": "greedy", "played_acc": 41.26, "played_ps": 1.234, "z": 9.0}, False),
        ({"point": "greedy", "played_acc": 41.26}, True),
        ({"point": "greedy", "played_ps": 1.234}, True),
    ],
)
def test_played_values_differ_beyond_three_deviations_or_at_all_if_greedy(row, differs):
    assert operating._differs({**EXACT, **row}) is differs


def test_notes_say_what_was_sampled_and_what_is_small():
    rows = pl.DataFrame(
        [
            {**POINT, "model": "z", "exact": False},
            {**POINT, "model": "b", "exact": False},
            {**POINT, "model": "thinker", "exact": False, "thoughts": 1},
            {**POINT, "scenario": "QD", "clusters": 29},
            {**POINT, "scenario": "ROD", "clusters": 5},
            {**POINT, "scenario": "COCO", "clusters": 30},
            {**POINT, "clusters": 1},
        ],
        schema_overrides={"scenario": pl.String},
    )

    assert list(operating._sampling_notes(rows, rows.filter(operating._scored()))) == [
        "b, z: the engine gives no probabilities, so shares of sampled replies estimate the own point alone",
        "thinker (hint) is not exact: its probabilities are means over 1 sampled thought per question, which also blur when it "
        "asks",
    ]
    assert list(operating._small_notes(rows)) == [
        "fewer than 30 samples, or clusters of them, in ROD, QD: intervals there hold the true value less often than in 95% of "
        "cases (docs/operating-curves.md)"
    ]
    assert not list(operating._small_notes(rows.filter(pl.col("clusters") >= 30)))
