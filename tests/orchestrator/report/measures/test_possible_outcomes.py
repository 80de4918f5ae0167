"""The least and the most of every measure of an ended episode, and the bounds of loops, by hand."""

import dataclasses

import polars as pl
import pytest

from envs.types import Ending
from orchestrator.report.measures import missingness
from orchestrator.report.measures.missingness import list_possible
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
