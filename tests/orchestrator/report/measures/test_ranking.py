"""Ranks by the average, and their joint bounds."""

import numpy as np
import pytest

from envs.types import Ending
from orchestrator.report.measures.ranking import ranking
from orchestrator.report.tables.evidence import ranking_table
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
    assert rows["n"].unique().to_list() == [400] and rows["rank_least"].null_count() == 3


def test_refused_episodes_count_as_wrong_and_bound_the_rank(run_data):
    numbers = np.arange(100)
    answers = {("a", "ROD"): endings(numbers < 60), ("b", "ROD"): [Ending.REFUSED] * 50 + endings(numbers[:50] < 40)}
    rows = ranking(plant(run_data, answers))
    assert rows["average"].to_list() == [60.0, 40.0] and rows["n"].to_list() == [100, 100]
    assert rows.select("rank_least", "rank_most").rows() == [(1, 2), (1, 2)]


def test_unfinished_models_have_no_rank(run_data):
    answers = {(model, "ROD"): endings([True, False]) for model in ("a", "b")} | {("c", "ROD"): endings([True])}
    assert set(ranking(plant(run_data, answers, planned=2))["model"]) == {"a", "b"}
    assert ranking(plant(run_data, {("a", "ROD"): endings([True])})).is_empty()


def test_all_true_ranks_lie_in_their_bounds(run_data):
    rng, hits = np.random.default_rng(2), []
    chances = {"a": 0.5, "b": 0.5, "c": 0.55, "d": 0.6}
    order = sorted(chances, key=lambda name: -chances[name])
    for _ in range(60):
        answers = {(name, s): endings(rng.random(120) < p) for name, p in chances.items() for s in ("ROD", "QD")}
        rows = ranking(plant(run_data, answers))
        least = {name: 1 + sum(chances[other] > p for other in chances) for name, p in chances.items()}
        most = {name: sum(chances[other] >= p for other in chances) for name, p in chances.items()}
        hits.append(
            all(row["rank_low"] <= most[row["model"]] and row["rank_high"] >= least[row["model"]]
                for row in rows.iter_rows(named=True))
        )  # fmt: skip
    assert len(order) == 4 and np.mean(hits) >= 0.95 - 3 * (0.05 * 0.95 / 60) ** 0.5


def test_ranking_table_leaves_out_the_oracle(run_data):
    table = ranking_table(run_data)
    assert table.rows and "oracle" not in [row[0].text for row in table.rows]
    assert [column.name for column in table.columns][:4] == ["model", "accuracy", "samples", "rank"]


@pytest.mark.parametrize("models", [2, 3])
def test_equal_models_exclude_no_rank(run_data, models):
    answers = {(f"m{number}", "ROD"): endings([True, False] * 30) for number in range(models)}
    assert set(ranking(plant(run_data, answers))["rank_high"]) == {models}
