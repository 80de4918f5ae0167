"""Ranks by the average, and their joint bounds."""

import numpy as np

from envs.types import Ending
from orchestrator.report.measures.paired import ranking
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def plant(run_data, answers, planned=None):
    """Return a run of ``answers``: (model, scenario) -> endings."""
    rows = [
        episode(number, f"{model}/{scenario}/zero-shot", ending)
        for (model, scenario), endings in answers.items()
        for number, ending in enumerate(endings)
    ]
    return replace_episodes(run_data, rows, planned)


def endings(right):
    return [Ending.CORRECT if answer else Ending.WRONG for answer in right]


def test_a_ranking_by_hand(run_data):
    numbers = np.arange(200)
    answers = {(m, s): endings(numbers < k) for m, k in (("a", 100), ("b", 150), ("c", 101)) for s in ("ROD", "QD")}
    rows = ranking(plant(run_data, answers))
    assert rows["model"].to_list() == ["b", "c", "a"] and rows["average"].to_list() == [75.0, 50.5, 50.0]
    assert rows.select("rank_low", "rank_high").rows() == [(1, 1), (2, 3), (2, 3)]
    assert rows["n"].unique().to_list() == [400]


def test_unfinished_models_have_no_rank(run_data):
    answers = {(model, "ROD"): endings([True, False]) for model in ("a", "b")} | {("c", "ROD"): endings([True])}
    assert set(ranking(plant(run_data, answers, planned=2))["model"]) == {"a", "b"}
    assert ranking(plant(run_data, {("a", "ROD"): endings([True])})).is_empty()
