"""Rankings state their uncertainty: probabilities are calibrated, bounds cover the true ranks, unfinished models have none."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from orchestrator.report.html.findings import find_headlines
from orchestrator.report.measures import ranking as room
from orchestrator.report.measures.ranking import (
    _answer_matrix,
    _both_ways,
    format_probability,
    posterior_draws,
    ranking,
    shrink_draws,
    win_probabilities,
)
from orchestrator.report.tables.evidence import ranking_table
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

SCENARIOS = ("ROD", "QD", "CIT")


def answers(rng, chances, n, shared=0.7):
    """Return right answers (n, models); samples that are hard for one model are hard for the others."""
    common = rng.random((n, 1)) < shared
    luck = np.where(common, rng.random((n, 1)), rng.random((n, len(chances))))
    return luck < chances


def run_with_answers(run_data, tables, models):
    rows = [
        episode(number, f"{name}/{scenario}/zero-shot", correct=bool(right[number, column]), turns=1)
        for scenario, right in tables.items()
        for column, name in enumerate(models)
        for number in range(len(right))
    ]
    return replace_episodes(run_data, rows)


def test_a_difference_lies_in_the_middle_of_its_interval(run_data):
    """Of 2,000 samples, 1,800 are right and 200: the prior moves the difference by less than 0.2 points."""
    numbers = np.arange(2_000)
    right = np.column_stack([numbers < 1_800, numbers < 200])
    (first, _) = ranking(run_with_answers(run_data, {"ROD": right}, ("better", "worse"))).to_dicts()

    assert (first["model"], first["next"], first["difference"]) == ("better", "worse", 80.0)
    assert (first["difference_low"] + first["difference_high"]) / 2 == pytest.approx(80, abs=0.25)
    assert 3 < first["difference_high"] - first["difference_low"] < 4


def test_probability_of_best_is_calibrated(monkeypatch):
    """Over worlds drawn from a flat prior, the mean stated probability equals the share that came true."""
    monkeypatch.setattr(room, "DRAWS", 500)
    rng, stated, true = np.random.default_rng(0), [], []
    for world in range(300):
        chances = rng.random((3, 4))
        draws = posterior_draws([(answers(rng, row, 8).astype(float), np.ones(8)) for row in chances], seed=world)
        share = np.bincount(draws.argmax(axis=1), minlength=4) / len(draws)
        stated += share.tolist()
        true += (np.arange(4) == chances.mean(axis=0).argmax()).tolist()
    stated, true = np.array(stated), np.array(true)

    for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.01)):
        here = (stated >= low) & (stated < high)
        error = 3 * np.sqrt(max(stated[here].mean() * (1 - stated[here].mean()), 0.01) / here.sum())
        assert true[here].mean() == pytest.approx(stated[here].mean(), abs=error), (low, high, here.sum())


@pytest.mark.parametrize(("models", "gap"), [(3, 1.0), (8, 0.3), (8, 3.0), (22, 0.03), (22, 1.0)])
def test_probability_of_first_is_calibrated_at_any_spread(models, gap):
    """``gap`` is the planted spread in standard errors; without shrinkage, the first of 22 equal models gets 34%, not 6%."""
    rng, runs = np.random.default_rng(models), 200
    noise = np.full((models, models), 0.5) + 0.5 * np.eye(models)
    true, plain, stated = 0, 0.0, 0.0
    for run in range(runs):
        truth = rng.normal(0, gap * np.sqrt(0.5), models)
        draws = (
            truth
            + rng.multivariate_normal(np.zeros(models), noise)
            + rng.multivariate_normal(np.zeros(models), noise, 400)
        )
        first = draws.mean(axis=0).argmax()
        true += truth.argmax() == first
        plain += (draws.argmax(axis=1) == first).mean()
        stated += (shrink_draws(draws, run).argmax(axis=1) == first).mean()

    error = 3 * np.sqrt(0.25 / runs)
    assert stated / runs == pytest.approx(true / runs, abs=error + 0.04)
    assert gap > 0.5 or plain / runs > true / runs + 0.15


@pytest.mark.parametrize("n", [1, 3])
def test_few_discordant_samples_leave_ranks_uncertain(n):
    better = np.column_stack([np.ones(30), np.arange(30) >= n]).astype(float)
    above = (posterior_draws([(better, np.ones(30))])[:, 0] > posterior_draws([(better, np.ones(30))])[:, 1]).mean()

    assert above == pytest.approx({1: 0.82, 3: 0.96}[n], abs=0.03), (
        "as the Beta posterior of gains says, prior (1/2, 1/2)"
    )


def bounds_hold(rows, chances, models):
    means = dict(zip(models, chances.mean(axis=0), strict=True))
    for row in rows.iter_rows(named=True):
        first = 1 + sum(mean > means[row["model"]] + 1e-12 for mean in means.values())
        if not row["rank_low"] <= first <= row["rank_high"]:
            return False
    return True


def coverage_rate(run_data, runs, n, models=("a", "b", "c", "d", "e")):
    rng, covered = np.random.default_rng(n), 0
    chances = np.array([[0.5, 0.5, 0.55, 0.6, 0.8]] * 3)
    for _ in range(runs):
        tables = {name: answers(rng, row, n) for name, row in zip(SCENARIOS, chances, strict=True)}
        covered += bounds_hold(ranking(run_with_answers(run_data, tables, models)), chances, models)
    return covered / runs


def test_all_true_ranks_lie_in_their_bounds(run_data, monkeypatch):
    monkeypatch.setattr(room, "DRAWS", 50)
    monkeypatch.setattr(room, "AT_ONCE", 50)

    assert coverage_rate(run_data, 15, 40) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 15)


@pytest.mark.long
def test_all_true_ranks_lie_in_their_bounds_in_many_runs(run_data, monkeypatch):
    monkeypatch.setattr(room, "DRAWS", 50)
    monkeypatch.setattr(room, "AT_ONCE", 50)

    for n in (20, 100):
        share = coverage_rate(run_data, 300, n)
        print(f"n {n}: all ranks in their bounds in {100 * share:.1f}% of runs")
        assert share >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 300)


@pytest.fixture
def three_models(run_data):
    """``a`` is right on 80 of 100 samples, ``b`` on 70 of the same, ``c`` on 20."""
    number = np.arange(100)[:, None]
    return run_with_answers(run_data, {"QD": number < np.array([80, 70, 20])}, ["a", "b", "c"])


def test_a_ranking_by_hand(three_models):
    first, second, last = ranking(three_models).iter_rows(named=True)

    assert [first[name] for name in ("model", "average", "models", "rank", "next")] == ["a", 80, 3, 1, "b"]
    assert first["p_best"] > 0.99 and first["p_beats_next"] > 0.99
    assert (first["rank_low"], first["rank_high"]) == (1, 1), "ten gained and none lost: p = 0.002"
    assert (second["difference"], last["next"], last["p_beats_next"]) == (50, None, None)
    assert ranking(three_models).equals(ranking(three_models))


def test_chances_of_two_models_add_up(three_models):
    probabilities = win_probabilities(three_models)
    chances = {(row["model"], row["other"]): row["p_beats"] for row in probabilities.iter_rows(named=True)}

    assert len(chances) == 6
    assert all(share + chances[rival, model] == pytest.approx(1) for (model, rival), share in chances.items())


def test_unfinished_model_has_no_rank(three_models):
    planned = three_models.planned.with_columns(
        pl.when(pl.col("model") == "a").then(101).otherwise("planned").alias("planned")
    )
    unfinished = dataclasses.replace(three_models, planned=planned)

    assert ranking(unfinished)["model"].to_list() == ["b", "c"]
    assert "no rank is given" not in find_headlines(three_models)[0].text
    assert "no rank is given" in find_headlines(unfinished)[0].text


def test_summary_states_probability_of_best(three_models):
    text = find_headlines(three_models)[0].text

    assert "of 3 its rank is 1, and it is above b with probability > 99%: +10.0 points" in text


def test_probability_of_best_needs_four_models(run_data, three_models):
    """Of fewer, the difference and its interval stand alone: 87% beside an interval without 0 reads as a contradiction."""
    best = [row[5].text for row in ranking_table(three_models).rows]

    assert best == ["-"] * 3 and "-" not in [row[5].text for row in ranking_table(run_data).rows]


def test_ranking_table_leaves_out_oracle(run_data):
    names = [row[0].text for row in ranking_table(run_data).rows]

    assert names == ranking(run_data)["model"].to_list()
    assert "oracle" not in names and len(names) == 5


def test_refused_episodes_count_as_wrong_and_remove_no_sample(run_data):
    """One of three models refuses a scenario and half of another one; the others keep all their samples."""
    rng = np.random.default_rng(3)
    tables = {name: answers(rng, np.array([0.8, 0.6, 0.7]), 40) for name in SCENARIOS}
    run = run_with_answers(run_data, tables, ["a", "b", "c"])
    refused = (pl.col("model") == "c") & (
        (pl.col("scenario") == "QD") | ((pl.col("scenario") == "ROD") & (pl.col("sample_id") < 20))
    )
    episodes = run.episodes.with_columns(
        pl.when(refused).then(pl.lit("refused")).otherwise("ending").alias("ending"),
        (pl.col("correct") & ~refused).alias("correct"),
    )
    rows = ranking(dataclasses.replace(run, episodes=episodes))
    alone = ranking(run_with_answers(run_data, {name: right[:, :2] for name, right in tables.items()}, ["a", "b"]))

    assert rows["n"].to_list() == [120] * 3
    assert rows["model"].to_list() == ["a", "b", "c"]
    assert rows.filter(model="a")["average"].item() == alone.filter(model="a")["average"].item()
    lost = tables["ROD"][20:, 2].sum() / 40 + tables["CIT"][:, 2].mean()
    assert rows.filter(model="c")["average"].item() == pytest.approx(100 * lost / 3)
    assert rows.filter(model="b")["difference"].item() == pytest.approx(
        rows.filter(model="b")["average"].item() - rows.filter(model="c")["average"].item()
    )


RIGHT = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])


def test_equal_runs_have_equal_draws_around_answers_and_prior():
    """Two prior samples a scenario, half right: (3 + 1) / 6 and (6 + 3) / 12 of the first model; clusters of 3 weigh 3."""
    draws = posterior_draws([(RIGHT, np.ones(4)), (3 * RIGHT[:2], np.array([3.0, 3.0]))])
    shrunk = shrink_draws(100 * draws)

    assert draws.shape == shrunk.shape == (4000, 2)
    assert draws.mean(axis=0) == pytest.approx([(4 / 6 + 9 / 12) / 2, (2 / 6 + 6 / 12) / 2], abs=0.005)
    assert draws[[0, 500, -1]].ravel() == pytest.approx(
        [0.69109335, 0.35762916, 0.8094667, 0.22353355, 0.84743287, 0.54090382]
    )
    assert shrunk[0] == pytest.approx([62.18971291, 43.11663369])
    assert shrunk.mean(axis=0) == pytest.approx([63.37230783, 50.46928124]), "closer to each other than the draws"


def test_answers_of_a_cluster_are_summed_over_samples_that_all_models_answered():
    rows = [
        # model, sample, cluster, correct
        ("a", 1, 9, True), ("b", 1, 9, False), ("a", 2, 9, True), ("b", 2, 9, True), ("a", 3, 4, False), ("b", 3, 4, True),
        ("a", 4, 4, True),
    ]  # fmt: skip
    played = pl.DataFrame(rows, schema=["model", "sample_id", "cluster", "correct"], orient="row")
    sums, sizes = _answer_matrix(played, ["a", "b"])
    single, ones = _answer_matrix(played.with_columns(cluster=pl.lit(None, pl.Int64)), ["b", "a"])

    assert (sums.tolist(), sizes.tolist()) == ([[0, 1], [2, 1]], [1, 2])
    assert (single.tolist(), ones.tolist()) == ([[0, 1], [1, 1], [1, 0]], [1, 1, 1])


def test_a_probability_is_never_certain():
    assert [format_probability(share) for share in (0.0, 0.0099, 0.01, 0.5, 0.99, 0.991, 1.0)] == [
        "< 1%", "< 1%", "1%", "50%", "99%", "> 99%", "> 99%",
    ]  # fmt: skip


def test_a_comparison_is_read_from_both_sides():
    pairs = pl.DataFrame(
        [("a", "b", 5.0, -1.0, 11.0, 0.2)],
        schema=["model", "other", "difference", "difference_low", "difference_high", "p_holm"], orient="row",
    )  # fmt: skip

    assert _both_ways(pairs).rows() == [("a", "b", 5.0, -1.0, 11.0, 0.2), ("b", "a", -5.0, -11.0, 1.0, 0.2)]
