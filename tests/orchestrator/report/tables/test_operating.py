"""Tables of operating points: splits and played values as text, and the notes that warn of what is uncertain."""

import dataclasses

import polars as pl
import pytest

from orchestrator.report.tables import operating
from orchestrator.report.tables.operating import splits_table_of
from orchestrator.report.tables.table import MISSING, TableCell
from sweeps.conditions import Condition
from tests.orchestrator.report.measures.test_estimates import replace_episodes

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


MEAN = {
    "model": "m", "scenario": None, "condition": "every-state", "exact": True, "thoughts": 0, "clusters": 40, "ps": 1.234,
    "greedy_ps": 2.0, **dict.fromkeys((*operating.POINTS, *operating.CHAIN), 50.0), "auc_own": 0.75, "neutral_own": None,
    "acc_low": 40.0, "acc_high": 60.0, "chance_acc": 20.0, "chance_ps": 1.5, "answered": 70.0, "abstained": 20.0,
    "limited": 10.0,
}  # fmt: skip


def test_means_have_a_column_per_measure_and_the_scenarios_in_their_heading(run_data, monkeypatch):
    cell = {**MEAN, "scenario": "QD"}
    rows = pl.DataFrame(
        [cell, MEAN, {**cell, "model": "oracle"}, {**MEAN, "model": "oracle"}],
        schema_overrides={"scenario": pl.String, "neutral_own": pl.Float64},
    )
    run = replace_episodes(run_data, [])
    planned = run.sweep.model_copy(update={"conditions": (*run.sweep.conditions, Condition(name="every-state"))})
    run = dataclasses.replace(run, sweep=planned)
    monkeypatch.setattr(operating, "operating_points", lambda _: rows)
    monkeypatch.setattr(operating, "exact_and_played", lambda _: pl.DataFrame())
    points, bounds = operating.operating_table(run), operating.bounds_table(run)

    assert [column.name for column in points.columns] == [
        "model", "own point", "greedy", "AUC, own map", "AUC, others' map", "neutral b", "order sd", "published order",
    ]  # fmt: skip
    assert [column.name for column in bounds.columns] == [
        "model", "own point", "any bias ≤", "never giving up ≤", "timed ≤", "right suggestion ≤", "recognition ≤",
    ]  # fmt: skip
    assert [[cell.text for cell in row] for row in points.rows] == [
        [f"{name}, every-state (avg of 1)", "50.0 / 1.23", "50.0 / 2.00", "0.750", "50.000", "-", "50.0", "+50.0"]
        for name in ("m", "oracle")
    ]
    assert points.rows[0][1].note == "40.0 to 60.0" and points.ranked == bounds.ranked == 1
    assert points.notes == (
        "m (every-state) ends right in 50.0% of episodes [40.0 to 60.0] with 1.23 suggestions by its own probabilities (chance: "
        "20.0% with 1.50); 70% end with a category, 20% with an abstention, 10% at the turn limit.",
    )
    assert (points.name, points.title) == (
        "operating",
        "unwilling or unable: exact acc % / ps of the model's own probabilities (temperature 1) and of greedy decoding; how well "
        "its odds of asking detect what cannot be known; points of acc by which orders of the options differ",
    )
    assert (bounds.name, bounds.title, bounds.notes) == (
        "operating-bounds",
        "what would raise acc %, at most: each column removes one weakness more, from the model's own point on",
        (),
    )


def test_played_values_that_differ_are_explained(run_data, monkeypatch):
    rows = pl.DataFrame([{**EXACT, "z": 4.0, "unreadable": 1.26}, {**EXACT, "model": "n", "unreadable": 0.0}])
    monkeypatch.setattr(operating, "exact_and_played", lambda _: rows)
    monkeypatch.setattr(operating, "explain_difference", lambda _, *names: f"kinds of {'/'.join(names)}")

    assert list(operating._difference_notes(run_data)) == [
        "m, QD: played acc 40.0 with 1.50 suggestions differs from the exact 41.3 with 1.23; replies that name no option have "
        "1.3% of the probability; kinds of m/QD/hint"
    ]


def test_exact_values_have_a_line_per_model_and_condition(run_data, monkeypatch):
    rows = pl.DataFrame([EXACT, {**EXACT, "scenario": "ROD", "z": None, "z_ps": None}, {**EXACT, "model": "n"}])
    monkeypatch.setattr(operating, "exact_and_played", lambda _: rows)
    table = operating.exact_table(run_data)

    text = "41.3 / 40.0; 1.23 / 1.50"
    assert [[cell.text for cell in row] for row in table.rows] == [["m, hint", text, text], ["n, hint", "-", text]]
    assert (table.name, [column.name for column in table.columns]) == ("operating-played", ["model", "ROD", "QD"])
    assert table.notes == ("z of acc in 2 cells: root mean square 0.54 (1 is expected), 100% within 1.96",)


@pytest.mark.parametrize(("left_out", "notes"), [(0, ()), (2, "2 more pairs"), (1, "1 more pair")])
def test_pairs_that_are_not_split_are_counted(run_data, monkeypatch, left_out, notes):
    names = {"before": "a", "after": "b", "family": "plain"}
    rows = pl.DataFrame([{**names, "scenario": "QD", **SPLIT}, {**names, "scenario": None, **SPLIT}])
    monkeypatch.setattr(operating, "operating_splits", lambda _: rows)
    monkeypatch.setattr(operating, "count_left_out", lambda _: left_out)
    table = operating.splits_table(run_data)

    assert table.name == "operating-splits" and len(table.rows) == 1
    assert table.notes == (notes and (f"{notes}: open_run(DIR).asking_split(BEFORE, AFTER) in Python",))
