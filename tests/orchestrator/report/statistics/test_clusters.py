"""Clusters: intervals hold the truth and tests keep their size where samples of one object are answered alike."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.outcomes import describe_clusters, outcomes, sample_clusters
from orchestrator.report.measures.paired_averages import compare_condition_averages
from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import CLUSTERS
from orchestrator.report.statistics.clusters import effective_size
from orchestrator.report.statistics.exact_tests import sign_flip
from orchestrator.report.statistics.intervals import Z, score_interval, stratum_from_values
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.storage.lock import RunFolderError

OBJECTS, ICC = 44, 0.1
"""As in MVP-N: samples are views of 44 objects."""


def objects(rng, sizes=(20, 100)):
    """The object of each sample; objects have unequal numbers of samples."""
    return np.repeat(np.arange(OBJECTS), rng.integers(*sizes, OBJECTS))


def right(rng, groups, share):
    """Answers whose chance varies between objects so that the intraclass correlation is ICC (beta-binomial)."""
    total = 1 / ICC - 1
    chances = rng.beta(share * total, (1 - share) * total, OBJECTS)
    return (rng.random(len(groups)) < chances[groups]).astype(np.int64)


def covered(values, groups, truth):
    low, high = score_interval([stratum_from_values(values, -1, 1, groups)])
    return low - 1e-9 <= truth <= high + 1e-9


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.8, 0.98])
def test_means_over_44_objects_with_an_intraclass_correlation_of_a_tenth_are_covered(share):
    rng, runs = np.random.default_rng(round(100 * share)), 250
    held = np.zeros(2)
    for _ in range(runs):
        groups = objects(rng)
        values = right(rng, groups, share)
        held += [covered(values, groups, share), covered(values, None, share)]

    assert 0.93 - tolerance(runs) <= held[0] / runs <= 0.97 + tolerance(runs)
    assert held[1] / runs < 0.75, "independent samples they are not"


def tolerance(runs, share=0.95):
    return 3 * np.sqrt(share * (1 - share) / runs)


@pytest.mark.long
@pytest.mark.parametrize("number", [10, 44, 200])
def test_coverage_over_clusters_on_a_grid(number):
    """Also of paired differences and of averages over seven scenarios."""
    runs, total = 1_000, 1 / ICC - 1
    for share in (0.02, 0.1, 0.3, 0.5, 0.8, 0.98):
        rng, held = np.random.default_rng(number), np.zeros(3)
        for _ in range(runs):
            groups = np.repeat(np.arange(number), rng.integers(20, 100, number))
            chances = rng.beta(share * total, (1 - share) * total, (2, number))
            one, other = (rng.random((2, len(groups))) < chances[:, groups]).astype(np.int64)
            held[0] += covered(one, groups, share)
            held[1] += covered(one - other, groups, 0)
            strata = [stratum_from_values(one, 0, 1, groups), stratum_from_values(other, 0, 1, groups)]
            low, high = score_interval(strata)
            held[2] += low <= share <= high
        print(f"{number} clusters, share {share}: mean, difference, average of two {100 * held / runs} %")
        assert (held / runs >= 0.92 - tolerance(runs)).all()


def test_the_sign_flip_test_of_clusters_has_its_size_and_the_one_of_samples_has_not():
    rng, runs, found = np.random.default_rng(5), 300, np.zeros(2)
    for _ in range(runs):
        groups = objects(rng, (10, 40))
        gains = right(rng, groups, 0.4) - right(rng, groups, 0.4)
        sums = np.bincount(groups, gains).astype(np.int64)
        found += [sign_flip(*np.unique(one, return_counts=True)) <= 0.05 for one in (sums, gains)]

    assert found[0] / runs <= 0.05 + tolerance(runs)
    assert found[1] / runs > 0.15


def test_the_effective_size_by_hand():
    """Two clusters of two, all alike within: as much as two samples, but for the t of one degree of freedom."""
    alike, groups = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    shrink = (Z / 12.7062) ** 2

    assert effective_size(np.tile(alike, 50), np.arange(200), Z) == pytest.approx(200, rel=0.02), "each its own cluster"
    # variance between clusters: 2 * (1 + 1) / 16 = 1/4; independent: 1 / (4 * 3)
    assert effective_size(alike, groups, Z) == max(1.0, 4 / 3 * shrink)
    assert effective_size(np.zeros(100, dtype=int), np.arange(100) % 10, Z) == pytest.approx(
        10 * (Z / 2.26216) ** 2, rel=1e-4
    )
    assert effective_size(alike, np.zeros(4, dtype=int), Z) == 1.0


def test_samples_of_one_answer_or_one_picture_are_a_cluster(run_data):
    by_object = dataclasses.replace(run_data, cluster="object")
    by_picture = dataclasses.replace(run_data, cluster="picture")
    for data, rule in ((by_object, lambda s: s.answer), (by_picture, lambda s: s.image)):
        found = sample_clusters(data)
        for scenario, samples in run_data.samples.items():
            mine = found.filter(scenario=scenario)
            expected = len({rule(sample) for sample in samples.values()})
            assert (mine.height, mine["cluster"].n_unique()) == (len(samples), expected)
    assert "same right answer" in describe_clusters(by_object) and "independently" in describe_clusters(run_data)
    assert outcomes(run_data)["cluster"].null_count() == outcomes(run_data).height


def test_clusters_widen_intervals_and_change_no_value(run_data):
    mine, few = pl.col("model") == "uniform", pl.col("condition").is_in(["zero-shot", "hint"])
    run_data = dataclasses.replace(
        run_data, planned=run_data.planned.filter(mine & few), episodes=run_data.episodes.filter(mine & few)
    )
    clustered = dataclasses.replace(run_data, cluster="object")
    plain, wide = estimate(run_data), estimate(clustered)
    mean = pl.col("condition") == "zero-shot"

    assert wide.cells["acc"].equals(plain.cells["acc"])
    one, other = (found.averages.filter(mean & (pl.col("model") == "uniform")) for found in (plain, wide))
    assert (other["acc_low"] < one["acc_low"]).all() and (other["acc_high"] > one["acc_high"]).all()
    one, other = (
        compare_condition_averages(data).filter(condition="hint", model="uniform") for data in (run_data, clustered)
    )
    assert one["difference"].equals(other["difference"])
    assert (other["difference_high"] - other["difference_low"] >= one["difference_high"] - one["difference_low"]).all()
    assert compare_conditions(clustered)["p"].null_count() == 0
    assert "sign flips of clusters" in next(grid.title for grid in report_tables(clustered) if grid.name == "paired")


def test_clusters_need_their_samples_and_a_name(run):
    with pytest.raises(RunFolderError, match="--cluster object or --cluster picture"):
        read_run(run, cluster="class")
    with pytest.raises(RunFolderError, match="--data DIR"):
        read_run(run, data=run, cluster="object")
    assert set(CLUSTERS) == {"object", "picture"}
    assert norm.ppf(0.975) == pytest.approx(Z)


def matrix_size(values, groups):
    """``effective_size`` by the covariance matrix of the clusters' sums."""
    n, member = len(values), np.equal.outer(np.unique(groups), groups).astype(float)
    clusters, sizes, away = len(member), member.sum(axis=1), values - values.mean()
    sums, within = member @ away, (away @ away) * n / (n - 1)
    correlation = sums @ sums * clusters / (clusters - 1) / within - 1
    alike = np.clip(correlation / max((sizes @ sizes) / n - 1, 1.0), 0, 1)
    covariance = np.diag(sizes * (1 + (sizes - 1) * alike))
    centering = np.eye(clusters) - np.outer(sizes / n, np.ones(clusters))
    residual = centering @ covariance @ centering.T
    kurtosis = clusters * (sums**4).sum() / (sums @ sums) ** 2
    freedom = min(np.trace(residual) ** 2 / np.trace(residual @ residual), max(1.0, 2 * clusters / (kurtosis - 1)))
    size = min(n, n * within * np.trace(residual) / np.trace(covariance) / (sums @ sums))
    return max(1.0, size * (Z / student.ppf(0.975, freedom)) ** 2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("highest", [2, 5, 20])
def test_the_effective_size_is_that_of_the_covariance_matrix(seed, highest):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(7), rng.integers(1, 12, 7))
    values = rng.integers(0, highest, 7)[groups] + rng.integers(0, highest, len(groups))

    assert effective_size(values, groups, Z) == pytest.approx(matrix_size(values, groups), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "groups", "size"),
    [
        ([1, 0, 1], [0, 0, 0], 1.0),
        ([1, 1, 1, 1], [0, 0, 1, 1], max(1.0, 2 * (Z / student.ppf(0.975, 1)) ** 2)),
        ([5] * 40, list(range(20)) * 2, 20 * (Z / student.ppf(0.975, 19)) ** 2),
        ([0, 1] * 20, [i // 2 for i in range(40)], 40 * (Z / student.ppf(0.975, 19)) ** 2),
    ],
)
def test_the_effective_size_of_one_cluster_and_of_clusters_that_agree(values, groups, size):
    assert effective_size(np.array(values), np.array(groups), Z) == pytest.approx(size)
