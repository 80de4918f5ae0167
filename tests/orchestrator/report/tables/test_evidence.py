"""Cells of the tables after the paper's own: changes of shares, ranks, replicates, readings, measures of packages."""

import polars as pl
import pytest

from orchestrator.report.tables import evidence
from orchestrator.report.tables.table import TableCell
from sweeps.protocol import Protocol

SHARE = {
    "before": 41.26, "after": 50.0, "points": 8.74, "points_low": -1.0, "points_high": 18.0, "percent": 21.18,
    "published": None,
}  # fmt: skip
RANK = {
    "model": "m", "average": 41.26, "n": 2000, "rank": 2, "rank_low": 1, "rank_high": 3, "p_best": 0.256, "models": 4,
    "next": "n", "p_beats_next": 0.995, "difference": 1.26, "difference_low": -1.0, "difference_high": 3.0,
    "rank_least": 1, "rank_most": 4,
}  # fmt: skip


def test_change_of_a_share_with_and_without_the_papers():
    points = "41.3 to 50.0; +8.7 [−1.0, +18.0]"

    assert evidence._share_change(SHARE) == TableCell(f"+21.2 ({points})", 21.18)
    assert evidence._share_change({**SHARE, "published": -18.0}) == TableCell(f"+21.2 ({points}), paper −18.0", 21.18)
    assert evidence._share_change({**SHARE, "percent": None}) == TableCell(f"- ({points})")


def test_rank_is_shown_with_its_certainty():
    texts = ["41.3", "2,000", "2", "1 to 3", "26%", "> 99%", "+1.3 (−1.0 to +3.0)"]

    assert list(evidence._rank_texts(RANK, bounded=False)) == texts
    assert list(evidence._rank_texts(RANK, bounded=True)) == [*texts, "1 to 4"]
    assert list(evidence._rank_texts({**RANK, "rank_least": None}, bounded=True))[-1] == "-"
    assert list(evidence._rank_texts({**RANK, "models": 3}, bounded=False))[4] == "-", "of three, best says too little"
    assert list(evidence._rank_texts({**RANK, "next": None}, bounded=False))[5:] == ["-", "-"]


def test_replicates_show_their_range_and_parts_of_variance():
    row = {"acc": 41.26, "least": 40.0, "most": 42.55, **dict.fromkeys(evidence.VARIANCE_COLUMNS, 12.6)}
    row[evidence.VARIANCE_COLUMNS[1]] = None

    assert evidence._variance(row) == TableCell("41.3, 40.0 to 42.5; 13 / - / 13 / 13", 41.26)


def test_readings_join_their_intervals():
    low, high = TableCell("40.0", 40.0, "35.0–45.0"), TableCell("50.0", 50.0, "44.0–56.0")

    assert evidence._reading({"lenient": 40.04, "lenient_low": 35.0, "lenient_high": 45.06}, "lenient") == TableCell(
        "40.0", 40.04, "35.0–45.1"
    )
    assert evidence._range(low, high) == TableCell("40.0 to 50.0", 40.0, "35.0–56.0")
    assert evidence._range(low, low) is low
    assert evidence._range(low, TableCell("50.0", 50.0)) == TableCell("40.0 to 50.0", 40.0)
    assert evidence._range(TableCell("40.0", 40.0), high) == TableCell("40.0 to 50.0", 40.0)


def test_mean_of_a_package_measure_has_its_interval():
    row = {"politeness": 1.26, "politeness_low": 1.0, "politeness_high": 1.55}

    assert evidence._mean(row, "politeness") == TableCell("1.3 (1.0 to 1.6)", 1.26)
    assert evidence._mean({**row, "politeness_low": None}, "politeness") == TableCell("1.3", 1.26)


@pytest.mark.parametrize(
    ("protocol", "name", "measure"),
    [
        (Protocol.MCQA, "paired", "accuracy"),
        (Protocol.OEG, "open-ended-paired", "open-ended, share of answers that the judge accepts,"),
        (Protocol.TOOLS, "tools-paired", "tool calls, accuracy"),
        (Protocol.OEG_MULTI, "open-ended-turns-paired", "open-ended over several turns, accuracy"),
    ],
)
def test_paired_table_names_its_measure(run_data, protocol, name, measure):
    table = evidence.paired_table(run_data, protocol)

    assert table.name == name
    assert table.title.startswith(f"{measure} against zero-shot on the same samples, points; last, the mean over the ")
    assert table.columns[0].name == "model" and table.columns[-1].name == "avg"


def test_replicates_and_readings_say_what_their_figures_are(run_data):
    robustness, readings = evidence.robustness_table(run_data), evidence.readings_table(run_data)

    assert (robustness.name, robustness.title) == (
        "robustness",
        "zero-shot: accuracy over all replicates, lowest to highest replicate; parts of the variance of an answer: sample / "
        "wording / option order / random draw of the decoding, percent (- : one level only, so the part before includes it)",
    )
    assert (readings.name, readings.title) == (
        "readings",
        "zero-shot: accuracy where a reply that names no option is wrong (strict, the benchmark's), is read by a tolerant rule "
        "(lenient), or counts as the nearest option (fuzzy); upper figure: if all episodes that would continue ended right",
    )
    assert [column.name for column in readings.columns] == ["model", "strict", "lenient", "fuzzy"]
    assert robustness.columns[0].name == "model"


def test_package_measure_has_a_line_per_model_condition_and_protocol(run_data, monkeypatch):
    names = {"model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "cell": "m/QD/hint"}
    figures = {"tone": 1.26, "tone_low": None, "tone_high": None, f"tone{evidence.COUNT_SUFFIX}": 3}
    schema = {"tone_low": pl.Float64, "tone_high": pl.Float64}
    rows = pl.DataFrame(
        [
            {**names, **figures},
            {**names, **figures, "scenario": "ROD", "protocol": "tools", "cell": "m/ROD/hint-tools"},
            {**names, **figures, "scenario": "CIT", "cell": "m/CIT/hint", f"tone{evidence.COUNT_SUFFIX}": 0},
        ],
        schema_overrides=schema,
    )
    monkeypatch.setitem(run_data.__dict__, "rows", rows)
    (table,) = evidence.package_measure_tables(run_data)

    assert [[cell.text for cell in row] for row in table.rows] == [
        ["m, hint", "-", "1.3"],
        ["m, hint (tools)", "1.3", "-"],
    ]
    assert (table.name, [column.name for column in table.columns], table.ranked) == (
        "measure-tone", ["model", "ROD", "QD"], 2
    )  # fmt: skip
    assert table.title == "tone: mean over episodes, with its 95% interval (a measure of an installed package)"
    assert table.numbers.columns == [
        "cell", "model", "scenario", "condition", "protocol", "tone", "tone_low", "tone_high", f"tone{evidence.COUNT_SUFFIX}",
    ]  # fmt: skip
