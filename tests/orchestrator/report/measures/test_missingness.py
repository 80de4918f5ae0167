"""Missing episodes bound every figure: worst and best case, in cells and averages."""

import polars as pl
import pytest

from envs.types import Ending
from orchestrator.report.measures.estimates import estimate, missing_bounds
from orchestrator.report.measures.paired import ranking
from orchestrator.report.tables.evidence import missing_table
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

N = 40


def cell(name, right, refused=0, ending=Ending.REFUSED, n=N, **fields):
    """Return ``n`` episodes of a cell, the first ``refused`` without an answer, the next ``right`` correct."""
    endings = [ending] * refused + [Ending.CORRECT] * right + [Ending.WRONG] * (n - refused - right)
    return [episode(number, name, end, **fields) for number, end in enumerate(endings)]


def bounds_of(run_data, **names):
    return missing_bounds(run_data).row(
        by_predicate=pl.all_horizontal(pl.col(k) == v for k, v in names.items()), named=True
    )


@pytest.mark.parametrize(
    "ending", [Ending.REFUSED, Ending.UNPROCESSABLE, Ending.FAILED, Ending.OVERFLOW, Ending.TRUNCATED]
)
def test_cell_and_average_lie_between_worst_and_best_case(run_data, ending):
    rows = [
        *cell("m/ROD/zero-shot", 10, 10, ending),
        *cell("m/QD/zero-shot", 20),
        episode(0, "long/ROD/zero-shot", turns=9),
    ]
    run = replace_episodes(run_data, rows)
    shown = {row["scenario"]: row for row in estimate(run).cells.filter(model="m").iter_rows(named=True)}

    acc = bounds_of(run, scenario="ROD")
    mean = bounds_of(run, scenario="avg")

    assert (acc["n"], acc["missing"], acc["least"], acc["most"]) == (N, 10, 25.0, 50.0)
    assert acc["value"] == pytest.approx(shown["ROD"]["acc"])
    assert acc["least_low"] < acc["least"] and acc["most_high"] > acc["most"]
    assert (mean["least"], mean["most"]) == (37.5, 50.0)
    assert missing_bounds(run).filter(scenario="QD").is_empty(), "nothing is missing from it"


def test_bounds_of_one_sample_a_scenario_are_printed_without_an_interval(run_data):
    names = ("m/ROD/zero-shot", "m/QD/zero-shot")
    rows = [*cell(names[0], 0, 1, n=1), *cell(names[1], 1, n=1)]
    (line,) = (line for line in missing_table(replace_episodes(run_data, rows)).rows if line[1].text == "avg")
    assert line[-1].text == "50.0 to 100.0"


def test_a_refused_scenario_removes_nobody_from_the_ranking(run_data):
    """Its missing answers count as wrong, and the samples stay in the ranking."""
    scenarios = ("ROD", "QD", "CIT")
    rows = [*cell("mute/ROD/zero-shot", 0, N), *cell("mute/QD/zero-shot", 38), *cell("mute/CIT/zero-shot", 38)]
    rows += [row for scenario in scenarios for row in cell(f"good/{scenario}/zero-shot", 32)]
    rows += [row for scenario in scenarios for row in cell(f"poor/{scenario}/zero-shot", 4)]
    run = replace_episodes(run_data, rows)
    ranks = {row["model"]: row for row in ranking(run).iter_rows(named=True)}

    assert set(ranks) == {"mute", "good", "poor"} and {row["n"] for row in ranks.values()} == {3 * N}
    assert [ranks[name]["rank"] for name in ("good", "mute", "poor")] == [1, 2, 3]
