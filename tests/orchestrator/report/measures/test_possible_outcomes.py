"""The least and the most of every measure of an ended episode, and the bounds of loops, by hand."""

import dataclasses

import polars as pl
import pytest

from envs.types import Ending
from orchestrator.report.measures import missingness
from orchestrator.report.measures.clustering import intraclass_correlation
from orchestrator.report.measures.missingness import list_possible, missing_bounds
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

CELL = "m/QD/hint"
SIX = ["acc_least", "acc_most", "ps_least", "ps_most", "loops_least", "loops_most"]


def test_outcomes_of_every_ending(run_data):
    """The turn limit is 8 suggestions, by the longest episode."""
    endings = (
        (Ending.CORRECT, 3, (1, 1, 2, 2, 0, 0)),
        (Ending.WRONG, 1, (0, 0, 0, 0, 0, 0)),
        (Ending.LIMIT, 9, (0, 0, 8, 8, 1, 1)),
        (Ending.OVERFLOW, 4, (0, 1, 3, 8, 0, 1)),
        (Ending.TRUNCATED, 2, (0, 1, 1, 8, 0, 1)),
        (Ending.REFUSED, 5, (0, 1, 0, 8, 0, 1)),
        (Ending.FAILED, 0, (0, 1, 0, 8, 0, 1)),
    )
    rows = [episode(n, CELL, ending, turns=turns) for n, (ending, turns, _) in enumerate(endings)]
    run = replace_episodes(run_data, rows)
    possible = list_possible(run, run.episodes).sort("sample_id")

    assert possible.select(SIX).rows() == [values for _, _, values in endings]
    assert possible["error"].to_list() == [False] * 5 + [True] * 2
    assert possible["missing"].to_list() == [False] * 3 + [True] * 4


def test_loops_lie_between_those_that_were_seen_and_those_that_may_be_missing(run_data):
    counts = ((Ending.LIMIT, 8), (Ending.WRONG, 20), (Ending.REFUSED, 12))
    kinds = [ending for ending, count in counts for _ in range(count)]
    run = replace_episodes(run_data, [episode(n, CELL, ending) for n, ending in enumerate(kinds)])
    row = missing_bounds(run).filter(measure="loops").row(0, named=True)

    assert (row["n"], row["missing"], row["least"], row["most"]) == (40, 12, 20.0, 50.0)
    assert row["value"] == pytest.approx(100 * 8 / 28)


@pytest.mark.parametrize(("strict", "ends"), [(False, [(0, 0), (1, 1), (0, 1)]), (True, [(0, 0), (0, 0), (0, 0)])])
def test_an_answer_without_a_verdict_may_be_right_or_wrong(run_data, monkeypatch, strict, ends):
    rows = [episode(n, "m/QD/hint-oeg", Ending.ANSWERED, protocol="oeg", condition="hint") for n in range(4)]
    run = dataclasses.replace(replace_episodes(run_data, rows), strict=strict)
    keys = run.episodes.sort("sample_id")["key"].to_list()
    bits = {
        "key": keys[:3], "aggregate": [False, True, None], "strict_aggregate": [False, None, False],
        "first_failed": [False, True, True],
    }  # fmt: skip
    monkeypatch.setitem(run.__dict__, "verdicts", pl.DataFrame(bits))
    answers = missingness._judged_answers(run, run.episodes).sort("sample_id")

    assert answers.select("acc_least", "acc_most").rows() == ends, "the fourth is not read yet"
    assert answers["missing"].to_list() == answers["error"].to_list() == [False, False, not strict]


def test_correlation_needs_a_cell_with_several_clusters_of_several_answers():
    def correlation(*sums):
        return intraclass_correlation(
            pl.DataFrame(sums, schema={"cell": pl.String, "n": pl.Int64, "k": pl.Int64}, orient="row")
        )

    assert correlation() is None
    assert correlation(("a", 4, 2)) is None, "one cluster"
    assert correlation(("a", 1, 1), ("a", 1, 0)) is None, "single answers"
    assert correlation(("a", 2, 2), ("a", 2, 2)) is None, "no variance"
    assert correlation(("a", 2, 2), ("a", 2, 0)) == pytest.approx(1.0), "all of it lies between the clusters"
    assert correlation(("a", 2, 1), ("a", 2, 1)) == pytest.approx(-1.0), "and here within them"
    pooled = correlation(("a", 2, 2), ("a", 2, 0), ("b", 3, 3))
    assert pooled == pytest.approx(1.0), "a cell of one cluster says nothing"
