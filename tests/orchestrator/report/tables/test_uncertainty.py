"""Tables of what bears on the figures: headings, lines by hand, and the order of what is missing."""

import polars as pl
import pytest

from orchestrator.report.measures.clustering import SCHEMA as CLUSTER_SCHEMA
from orchestrator.report.measures.missingness import SCHEMA as MISSING_SCHEMA
from orchestrator.report.tables import uncertainty
from orchestrator.report.tables.table import MISSING, TableCell
from tests.orchestrator.report.measures.test_estimates import replace_episodes

BOUND = {
    "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "against": "", "measure": "acc", "n": 2000,
    "missing": 1500, "value": 41.26, "least": 10.0, "least_low": 8.0, "most": 85.0, "most_high": 87.56,
}  # fmt: skip
CLUSTER = {
    "scenario": "QD", "clustering": "picture", "samples": 2000, "clusters": 1500, "largest": 1001, "icc": 0.256,
    "design_effect": 1.26, "wider": 1.126, "counts": True,
}  # fmt: skip
CLUSTER_LINE = [
    "QD", "samples of one scenario cut from the same picture or video", "1,500 of 2,000", "1,001", "0.26", "1.3", "1.13",
    "yes",
]  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "rule"),
    [
        ("automatic", "intervals and tests are over clusters that widen them more than 1.2 times (--independent: over samples)"),
        ("", "intervals and tests are over independent samples, as asked"),
        ("picture", "intervals and tests are over pictures, as asked"),
    ],
)  # fmt: skip
def test_clusters_are_described_with_the_rule_that_counts_them(run_data, monkeypatch, cluster, rule):
    rows = [CLUSTER, {**CLUSTER, "scenario": "ROD", "counts": False}, {**CLUSTER, "icc": None}]
    monkeypatch.setattr(uncertainty, "clustering", lambda _: pl.DataFrame(rows, schema=CLUSTER_SCHEMA))
    run = replace_episodes(run_data, [])
    object.__setattr__(run, "cluster", cluster)
    table = uncertainty.clustering_table(run)

    assert [[cell.text for cell in row] for row in table.rows] == [CLUSTER_LINE, ["ROD", *CLUSTER_LINE[1:7], "no"]]
    assert (table.name, table.title) == (
        "clusters", f"samples of one object, picture or video are answered alike: {rule}"
    )  # fmt: skip
    assert [(column.name, column.number, column.about) for column in table.columns] == [
        ("scenario", False, ""),
        ("clusters", False, ""),
        ("number", True, ""),
        ("largest", True, "samples of the largest cluster"),
        ("icc", True, "intraclass correlation of right answers, over all cells of models"),
        ("design effect", True, "variance of a mean over clusters, relative to independent samples"),
        ("wider", True, "width of the interval over clusters, relative to the one over independent samples"),
        ("counts", False, "whether intervals, tests and ranks are over these clusters"),
    ]


def test_effect_of_a_condition_names_its_protocol():
    row = {
        "condition": "hint", "protocol": "mcqa", "models": 4, "scenarios": 3, "difference": 14.44, "difference_low": -2.0,
        "difference_high": 30.0, "p_holm": 0.0456, "between_models": 1.26, "between_scenarios": 2.0, "rest": 0.04,
    }  # fmt: skip
    expected = (
        TableCell("hint"), TableCell("4", 4), TableCell("3", 3), TableCell("+14.4", 14.44), TableCell("−2.0 to +30.0"),
        TableCell("0.046", 0.0456), TableCell("1.3", 1.26), TableCell("2.0", 2.0), TableCell("0.0", 0.04),
    )  # fmt: skip

    assert uncertainty._effect_line(row) == expected
    assert uncertainty._effect_line({**row, "protocol": "oeg"}) == (TableCell("hint (oeg)"), *expected[1:])
    assert [(column.name, column.number, column.about) for column in uncertainty.EFFECT_COLUMNS] == [
        ("condition", False, ""),
        ("models", True, "those that played every scenario under it and under zero-shot"),
        ("scenarios", True, ""),
        ("change", True, "mean over models and scenarios, points of acc on the same samples"),
        ("95% interval", False, "for further models and scenarios like these"),
        ("p", True, "after Holm's correction over the conditions"),
        ("between models", True, "standard deviation of the models' own changes, points"),
        ("between scenarios", True, "standard deviation of the scenarios' own changes, points"),
        ("rest", True, "standard deviation that neither explains, sampling error included"),
    ]


def test_bounds_of_a_figure_and_of_a_change():
    names = (TableCell("m", "m"), TableCell("hint", "hint"), TableCell("QD", "QD"))
    share = TableCell("1,500 of 2,000", 75.0, "75.0%")

    assert uncertainty._bounds_line(BOUND) == (
        *names, TableCell("accuracy", "accuracy"), share, TableCell("41.3", 41.26),
        TableCell("10.0 to 85.0", 10.0, "8.0 to 87.6"),
    )  # fmt: skip
    assert uncertainty._bounds_line({**BOUND, "against": "zero-shot", "measure": "ps", "value": None}) == (
        *names, TableCell("change of suggestions", "change of suggestions"), share, MISSING,
        TableCell("+10.0 to +85.0", 10.0, "+8.0 to +87.6"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "against", "name"),
    [
        ("acc", "", "accuracy"),
        ("ps", "", "suggestions"),
        ("loops", "", "loops"),
        ("loops", "zero-shot", "change of loops"),
    ],
)
def test_bounds_name_their_measure(measure, against, name):
    assert uncertainty._bounds_line({**BOUND, "measure": measure, "against": against})[3].text == name


def missing_rows(monkeypatch, run_data, rows):
    monkeypatch.setattr(uncertainty, "missing_bounds", lambda _: pl.DataFrame(rows, schema=MISSING_SCHEMA))
    return uncertainty.missing_table(run_data)


def test_missing_table_starts_with_averages_then_with_what_misses_most(run_data, monkeypatch):
    rows = [
        {**BOUND, "model": "few", "missing": 30},
        {**BOUND, "model": "oracle", "missing": 900},
        {**BOUND, "model": "zebra", "missing": 900},
        {**BOUND, "model": "all", "scenario": "avg", "missing": 21},
        {**BOUND, "model": "asked", "measure": "ps", "missing": 2000},
    ]
    table = missing_rows(monkeypatch, run_data, rows)

    assert [row[0].text for row in table.rows] == ["all", "zebra", "oracle", "few"], "of equals, baselines are last"
    assert (table.name, table.notes, table.search) == ("missing", (), True)
    assert table.title == (
        "figures with more than 1% of their episodes missing: worst and best case, with the 95% intervals of both"
    )
    assert [(column.name, column.number, column.filter, column.about) for column in table.columns] == [
        *((name, False, True, "") for name in ("model", "condition", "scenario", "measure")),
        ("missing", True, False, "episodes, or pairs, without an answer or cut short by a limit"),
        ("shown", True, False, "as in the other tables"),
        ("worst to best case", True, False,
         "if all missing episodes had the lowest, or highest value; in brackets the 95% intervals of both"),
    ]  # fmt: skip


def test_forty_rows_are_listed_and_the_others_counted(run_data, monkeypatch):
    rows = [{**BOUND, "model": f"m{number:02d}"} for number in range(41)]

    whole, cut = (missing_rows(monkeypatch, run_data, rows[:number]) for number in (40, 41))
    assert len(whole.rows) == len(cut.rows) == 40
    assert (whole.notes, cut.notes) == ((), ("1 more row in missing.csv",))
    assert not missing_rows(monkeypatch, run_data, rows[:1]).search
