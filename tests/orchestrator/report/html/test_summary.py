"""The page's facts and problems are whole sentences with the figures of the run."""

import json

import pytest

from envs.types import Ending
from orchestrator.report.html.summary import list_facts, list_problems
from orchestrator.report.read_run import read_run
from orchestrator.storage import checksums
from orchestrator.storage.status import STATUS
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def small_run(demo_data, tmp_path_factory):
    return play_sweep(
        tmp_path_factory.mktemp("summary") / "run", sweep(demo_data, ["guess"], ["hint"], scenarios=["QD"])
    )


@pytest.mark.parametrize(
    ("status", "program"),
    [
        ({}, "not recorded yet"),
        (
            {
                "commit": "0123456789abcdef0123",
                "python": "3.12.1",
                "packages": {"ray": "2.9", "proactive-sweep": "1.0"},
            },
            "proactive-sweep 1.0, ray 2.9, Python 3.12.1, commit 0123456789ab",
        ),
    ],
)
def test_the_program_is_its_versions_and_twelve_digits_of_its_commit(small_run, status, program):
    checksums.write(small_run / STATUS, json.dumps({**status, "cells": []}).encode())

    assert dict(list_facts(read_run(small_run)))["Program"] == program


def test_a_reason_to_stop_is_one_sentence_with_the_first_two_cells(small_run):
    reasons = ["out of memory", "out of memory", "no such model", "", "out of memory"]
    counts = {"planned": 9, "finished": 3, "errors": 0, "state": "partial"}
    cells = [{"cell": f"m/QD/{number}", **counts, "reason": reason} for number, reason in enumerate(reasons)]
    checksums.write(small_run / STATUS, json.dumps({"cells": cells}).encode())

    problems = [line for line in list_problems(read_run(small_run)) if "stopped" in line]
    assert problems == [
        "3 cells stopped (m/QD/0, m/QD/1 and 1 more): out of memory",
        "1 cell stopped (m/QD/2): no such model",
    ]


def test_problems_are_the_endings_without_an_answer_and_those_cut_short(run_data):
    rows = [episode(number, "m/ROD/hint") for number in range(4)]
    rows += [episode(number, "m/ROD/hint", Ending.OVERFLOW) for number in (4, 5)]
    rows += [episode(0, "m/QD/hint", Ending.OVERFLOW), episode(1, "m/QD/hint", Ending.TRUNCATED)]
    rows += [episode(number, "m/QD/hint", Ending.REFUSED, error="refused <it>") for number in (2, 3)]
    rows += [episode(4, "m/QD/hint", Ending.FAILED, error="failed once")]

    run = replace_episodes(run_data, rows)
    assert [line for line in list_problems(run) if line not in run.notes] == [
        "3 episodes in 2 cells outgrew the model, counted as not right; the table of cells has the upper bound of acc",
        "1 episode in 1 cell spent a reply's tokens before its first word, counted as not right; the table of cells has the "
        "upper bound of acc",
        "without an answer, left out of all measures: 3 episodes (2 refused, 1 failed)",
        "2 times: refused <it>",
        "1 time: failed once",
    ]
    assert not list_problems(run_data), "a complete run without errors has none"
