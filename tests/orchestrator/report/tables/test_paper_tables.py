"""Tables of accuracy and suggestions: their titles, lines and unfinished averages, from planted episodes."""

from orchestrator.report.measures.estimates import estimate
from orchestrator.report.tables import paper_tables
from orchestrator.report.tables.table import MISSING, UNFINISHED, TableCell
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def cell(name, right, n=4, **fields):
    """Return the episodes of a cell, each with one suggestion, the first ``right`` of them correct."""
    return [episode(number, name, correct=number < right, **fields) for number in range(n)]


def shown(table):
    return [[entry.text for entry in row] for row in table.rows]


def test_solved_examples_stand_beside_zero_shot_over_their_scenarios(run_data):
    names = ("ROD/zero-shot", "QD/zero-shot", "ROD/icl-1", "MVP-N/icl-1")
    rows = [row for name, right in zip(names, (1, 4, 2, 3), strict=True) for row in cell(f"m/{name}", right)]
    run = replace_episodes(run_data, [*rows, *cell("n/QD/zero-shot", 2), *cell("m/ROD/reference", 4)])
    table = paper_tables.conditions_table(run)

    assert [column.name for column in table.columns] == ["model", "zero-shot", "zero-shot (ROD, MVP-N)", "icl-1"]
    assert shown(table) == [
        ["m", "62.5 / 1.0", "25.0 / 1.0", "62.5 / 1.0"],
        ["n", "50.0 / 1.0", "-", "-"],
    ]


def test_average_over_scenarios_is_unfinished_without_a_figure_or_an_episode(run_data):
    rows = [*cell("m/ROD/zero-shot", 1), *cell("m/QD/zero-shot", 3), *cell("n/ROD/zero-shot", 2)]
    whole = replace_episodes(run_data, rows)
    part = replace_episodes(run_data, rows, planned=5)

    def average(run):
        return paper_tables._average_over(estimate(run).cells, ["ROD", "QD"])

    assert average(whole) == {"m": TableCell("50.0 / 1.0", 50.0), "n": TableCell("50.0 / 1.0", 50.0)}
    assert average(part)["m"] == TableCell("50.0 / 1.0", 50.0, style="unfinished")
    failed = [*rows, *cell("o/QD/zero-shot", 0, ending="unprocessable")]
    assert average(replace_episodes(run_data, failed))["o"] == UNFINISHED
    assert MISSING not in average(whole).values()
