"""Cells, notes and agreement of a comparison with the paper, each from planted rows."""

import polars as pl
import pytest

from orchestrator.report.comparisons import paper_comparison as room
from orchestrator.report.comparisons.paper_comparison import SCHEMA, comparison_notes, comparison_tables
from orchestrator.report.tables.table import MISSING, TableCell

ROW = {
    "model": "m", "paper": "M", "scenario": "ROD", "condition": "hint", "protocol": "mcqa", "measure": "acc", "planned": 2000,
    "finished": 2000, "ours": 41.26, "low": 39.0, "high": 43.5, "published": 43.04, "difference": -1.78, "episodes": -3,
    "inside": False, "exact": True, "errors": 0, "reason": None, "judge": None, "apart": "", "flip_rate": None,
}  # fmt: skip


def rows(*changes):
    return pl.DataFrame([{**ROW, **change} for change in changes], SCHEMA)


def test_a_table_has_ours_above_the_papers():
    first, second = comparison_tables(
        rows({}, {"scenario": "avg", "inside": True}, {"measure": "ps", "inside": None, "difference": -0.04},
             {"model": "n", "published": None}, {"protocol": "oeg", "exact": False})
    )  # fmt: skip

    assert first.title == "hint (mcqa): ours, under it the paper's and the difference (* more than rounding allows)"
    assert second.title == "hint (oeg): ours, under it the paper's and the difference (* outside our 95% interval)"
    names = ["model, measure", "ROD", "VSOD", "MVP-N", "IN-C", "QD", "CIT", "COCO", "avg"]
    assert [column.name for column in first.columns] == names and first.name == "paper"
    assert first.rows == (
        (
            TableCell("m, acc"),
            TableCell("41.3\n43.0 −1.8*", 41.26),
            *[MISSING] * 6,
            TableCell("41.3\n43.0 −1.8", 41.26),
        ),
        (TableCell("m, ps"), TableCell("41.3\n43.0 0.0", 41.26), *[MISSING] * 7),
    )


def test_notes_say_what_is_not_compared_and_why():
    gone = {"published": None, "reason": "no such table"}
    notes = comparison_notes(
        rows(
            gone, {**gone, "measure": "ps"}, {**gone, "scenario": "QD", "model": "n"}, {**gone, "scenario": "avg"},
            {**gone, "reason": "other"}, {"judge": "b/1", "apart": "z"}, {"judge": "a/1", "apart": "y", "scenario": "CIT"},
        )
    )  # fmt: skip

    assert notes[0].startswith("hint (mcqa), acc: 2 of 2 figures off by more than rounding allows")
    assert notes[1:] == [
        "2 cells not compared (m, n): no such table",
        "open-ended figures are by the judge a/1; the paper's are by Qwen3-8B, sampled, with the package's instruction",
        "open-ended figures are by the judge b/1; the paper's are by Qwen3-8B, sampled, with the package's instruction",
        "y",
        "z",
        "compared cells have the published ids and counts, but their pictures cannot be checked from the run folder",
    ]
    assert comparison_notes(rows(gone)) == ["1 cell not compared (m): no such table"]


def test_flips_and_unanswered_episodes_are_noted_per_model_and_cell():
    assert list(
        room._flip_sentences(rows({"flip_rate": 0.256}, {"flip_rate": 0.256}, {"model": "n", "flip_rate": 0.0}))
    ) == ["m: up to 0.26% of answers change with the batch (`models flip-rate`); * is beyond what that explains (5%)"]
    # 1,500 of 2,000 answered, of these 41.26% right: 618.9 of 2,000
    assert list(room._unanswered_sentences(rows(
        {"errors": 500}, {"errors": 500, "scenario": "avg"}, {"errors": 500, "measure": "ps"}, {"errors": 500, "published": None},
    ))) == [
        "m/ROD/hint: 500 of 2,000 episodes without an answer; counted as wrong, as the package's example does, acc is 30.9"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [(43.0, 50.0, True), (43.1, 50.0, False), (40.0, 42.9, False), (40.0, 43.0, True), (None, 50.0, None)],
)  # fmt: skip
def test_a_figure_that_is_not_exact_agrees_if_rounding_reaches_its_interval(low, high, inside):
    row = {**ROW, "low": low, "high": high}

    assert room._agreement_columns(row, {}, False, []) == {"exact": False, "inside": inside}


def test_an_exact_figure_agrees_to_the_episode():
    cell = {"scored": 1000, "finished": 1000, "acc": 43.1, "ps": 2.0}

    # 43.04 is printed as 43.0 or 43.1: 429.9 to 430.9 episodes of 1,000; 431 are one too many
    assert room._agreement_columns(ROW, cell, True, []) == {"exact": True, "episodes": 1, "inside": False}
    assert room._agreement_columns({**ROW, "flip_rate": 5.0}, cell, True, []) == {
        "exact": True, "episodes": 1, "inside": True
    }  # fmt: skip
    assert room._agreement_columns(ROW, {**cell, "acc": 43.0}, True, []) == {
        "exact": True,
        "episodes": 0,
        "inside": True,
    }
    assert room._episode_difference({**cell, "finished": 1100}, "acc", 43.1) == 431 - 474, "errors count as wrong"
    assert room._episode_difference(cell, "ps", 1.9) == 2000 - 1950


def test_an_average_agrees_within_rounding_and_flips():
    row = {**ROW, "scenario": "avg", "ours": 43.13}

    assert room._agreement_columns(row, {}, True, [100, 100]) == {"exact": True, "inside": True}
    far = {**row, "ours": 44.0}
    assert room._agreement_columns(far, {}, True, [100, 100]) == {"exact": True, "inside": False}
    # flips of 1% in two scenarios of 100: the standard error is 100 x root(2 x 0.01 / 100 / 4) = 0.71 points
    assert room._agreement_columns({**far, "flip_rate": 1.0}, {}, True, [100, 100])["inside"]
    assert not room._agreement_columns({**far, "ours": 44.6, "flip_rate": 1.0}, {}, True, [100, 100, 0])["inside"]
