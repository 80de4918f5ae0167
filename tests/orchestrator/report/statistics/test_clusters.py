"""Clusters: intervals cover the truth and tests keep their size if samples of one object are answered alike."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from scipy.stats import f_oneway, norm
from scipy.stats import t as student

from envs.errors import RunFolderError
from orchestrator.report.measures.clustering import (
    clustering,
    describe_clusters,
    intraclass_correlation,
    sample_clusters,
)
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.outcomes import outcomes
from orchestrator.report.measures.paired_averages import compare_condition_averages
from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import AUTOMATIC, CLUSTERS
from orchestrator.report.statistics.clusters import effective_size
from orchestrator.report.statistics.exact_tests import sign_flip
from orchestrator.report.statistics.intervals import Z, score_interval, stratum_from_values
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.uncertainty import clustering_table
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

OBJECTS, ICC = 44, 0.1
"""As in MVP-N: samples are views of 44 objects."""


def objects(rng, sizes=(20, 100)):
    """Return the object of each sample; objects have unequal numbers of samples."""
    return np.repeat(np.arange(OBJECTS), rng.integers(*sizes, OBJECTS))


def draw_answers(rng, groups, share):
    """Return answers whose chance varies between objects so that the intraclass correlation is ICC (beta-binomial)."""
    total = 1 / ICC - 1
    chances = rng.beta(share * total, (1 - share) * total, OBJECTS)
    return (rng.random(len(groups)) < chances[groups]).astype(np.int64)


def interval_covers(values, groups, truth):
    low, high = score_interval([stratum_from_values(values, -1, 1, groups)])
    return low - 1e-9 <= truth <= high + 1e-9


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.8, 0.98])
def test_means_of_correlated_clusters_are_covered(share):
    rng, runs = np.random.default_rng(round(100 * share)), 250
    coverage = np.zeros(2)
    for _ in range(runs):
        groups = objects(rng)
        values = draw_answers(rng, groups, share)
        coverage += [interval_covers(values, groups, share), interval_covers(values, None, share)]

    assert 0.93 - tolerance(runs) <= coverage[0] / runs <= 0.97 + tolerance(runs)
    assert coverage[1] / runs < 0.75, "independent samples they are not"


def tolerance(runs, share=0.95):
    return 3 * np.sqrt(share * (1 - share) / runs)


@pytest.mark.long
@pytest.mark.parametrize("number", [10, 44, 200])
def test_coverage_over_clusters_on_a_grid(number):
    """Cover means, paired differences and averages over scenarios."""
    runs, total = 1_000, 1 / ICC - 1
    for share in (0.02, 0.1, 0.3, 0.5, 0.8, 0.98):
        rng, coverage = np.random.default_rng(number), np.zeros(3)
        for _ in range(runs):
            groups = np.repeat(np.arange(number), rng.integers(20, 100, number))
            chances = rng.beta(share * total, (1 - share) * total, (2, number))
            first, second = (rng.random((2, len(groups))) < chances[:, groups]).astype(np.int64)
            coverage[0] += interval_covers(first, groups, share)
            coverage[1] += interval_covers(first - second, groups, 0)
            strata = [stratum_from_values(first, 0, 1, groups), stratum_from_values(second, 0, 1, groups)]
            low, high = score_interval(strata)
            coverage[2] += low <= share <= high
        print(f"{number} clusters, share {share}: mean, difference, average of two {100 * coverage / runs} %")
        assert (coverage / runs >= 0.92 - tolerance(runs)).all()


def test_cluster_sign_flip_has_its_size_unlike_sample_sign_flip():
    rng, runs, rejections = np.random.default_rng(5), 300, np.zeros(2)
    for _ in range(runs):
        groups = objects(rng, (10, 40))
        gains = draw_answers(rng, groups, 0.4) - draw_answers(rng, groups, 0.4)
        sums = np.bincount(groups, gains).astype(np.int64)
        rejections += [sign_flip(*np.unique(values, return_counts=True)) <= 0.05 for values in (sums, gains)]

    assert rejections[0] / runs <= 0.05 + tolerance(runs)
    assert rejections[1] / runs > 0.15


def test_the_effective_size_by_hand():
    """Two uniform clusters of two count as two samples, apart from the t factor of one degree of freedom."""
    alike, groups = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    shrink = (Z / 12.7062) ** 2

    assert effective_size(np.tile(alike, 50), np.arange(200)) == pytest.approx(200, rel=0.02), "each its own cluster"
    # variance between clusters: 2 * (1 + 1) / 16 = 1/4; independent: 1 / (4 * 3)
    assert effective_size(alike, groups) == max(1.0, 4 / 3 * shrink)
    assert effective_size(np.zeros(100, dtype=int), np.arange(100) % 10) == pytest.approx(
        10 * (Z / 2.26216) ** 2, rel=1e-4
    )
    assert effective_size(alike, np.zeros(4, dtype=int)) == 1.0


def test_samples_of_one_answer_or_one_picture_are_a_cluster(run_data):
    by_object = dataclasses.replace(run_data, cluster="object")
    by_picture = dataclasses.replace(run_data, cluster="picture")
    for clustered, rule in ((by_object, lambda s: s.answer), (by_picture, lambda s: s.image)):
        clusters = sample_clusters(clustered)
        for scenario, samples in run_data.samples.items():
            scenario_clusters = clusters.filter(scenario=scenario)
            expected = len({rule(sample) for sample in samples.values()})
            assert (scenario_clusters.height, scenario_clusters["cluster"].n_unique()) == (len(samples), expected)
    assert "same right answer" in describe_clusters(by_object) and "independently" in describe_clusters(run_data)
    assert outcomes(run_data)["cluster"].null_count() == outcomes(run_data).height


def test_clusters_widen_intervals_and_change_no_value(run_data):
    own_rows, few = pl.col("model") == "uniform", pl.col("condition").is_in(["zero-shot", "hint"])
    run_data = dataclasses.replace(
        run_data, planned=run_data.planned.filter(own_rows & few), episodes=run_data.episodes.filter(own_rows & few)
    )
    clustered = dataclasses.replace(run_data, cluster="object")
    plain, wide = estimate(run_data), estimate(clustered)
    mean = pl.col("condition") == "zero-shot"

    assert wide.cells["acc"].equals(plain.cells["acc"])
    narrower, wider = (estimates.averages.filter(mean & (pl.col("model") == "uniform")) for estimates in (plain, wide))
    assert (wider["acc_low"] < narrower["acc_low"]).all() and (wider["acc_high"] > narrower["acc_high"]).all()
    narrower, wider = (
        compare_condition_averages(source).filter(condition="hint", model="uniform") for source in (run_data, clustered)
    )
    assert narrower["difference"].equals(wider["difference"])
    assert (
        wider["difference_high"] - wider["difference_low"] >= narrower["difference_high"] - narrower["difference_low"]
    ).all()
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

    assert effective_size(values, groups) == pytest.approx(matrix_size(values, groups), rel=1e-9)


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
    assert effective_size(np.array(values), np.array(groups)) == pytest.approx(size)


def clustered_run(run_data, correlation, models=("m",)):
    """Return a run over 24 objects of 12 samples, answered with this intraclass correlation."""
    rng, groups = np.random.default_rng(5), np.repeat(np.arange(24), 12)
    rows, samples = [], {}
    for scenario in ("MVP-N", "QD"):
        alike = correlation if scenario == "MVP-N" else 0.0
        base = next(iter(run_data.samples[scenario].values()))
        samples[scenario] = {
            number: dataclasses.replace(base, id=number, answer=f"object {group}", image=f"{number}.jpg")
            for number, group in enumerate(groups.tolist())
        }
        for model in models:
            chances = rng.beta(0.5 * (1 / alike - 1), 0.5 * (1 / alike - 1), 24) if alike else np.full(24, 0.5)
            for condition in ("zero-shot", "hint"):
                right = rng.random(len(groups)) < chances[groups]
                rows += [
                    episode(number, f"{model}/{scenario}/{condition}", correct=bool(value), turns=1)
                    for number, value in enumerate(right)
                ]
    run = replace_episodes(run_data, rows)
    return dataclasses.replace(run, samples=samples, cluster=AUTOMATIC)


def test_clusters_count_by_default_where_they_widen_intervals(run_data):
    """The planted correlation is found, its scenario is tested over clusters, and the other one is not."""
    run = clustered_run(run_data, 0.4)
    rows = {(row["scenario"], row["clustering"]): row for row in clustering(run).iter_rows(named=True)}
    plain, standing = (estimate(source).cells for source in (dataclasses.replace(run, cluster=""), run))
    widths = [(frame["acc_high"] - frame["acc_low"]).to_list() for frame in (plain, standing)]
    ratios = dict(zip(plain["scenario"], np.divide(widths[1], widths[0]), strict=True))

    assert rows["MVP-N", "object"]["icc"] == pytest.approx(0.4, abs=0.15) and rows["MVP-N", "object"]["counts"]
    assert not rows["QD", "object"]["counts"] and rows["QD", "object"]["icc"] == pytest.approx(0, abs=0.06)
    assert rows["MVP-N", "picture"]["icc"] is None, "single pictures are no clusters"
    assert ratios["QD"] == 1 and ratios["MVP-N"] > 1.5
    assert "24 in MVP-N" in describe_clusters(run) and "other scenarios over independent samples" in describe_clusters(
        run
    )
    assert [row[-1].text for row in clustering_table(run).rows] == ["yes", "no"]


def test_paired_p_is_of_the_clusters_that_count(run_data):
    run = clustered_run(run_data, 0.4)
    tests = {
        cluster: compare_conditions(dataclasses.replace(run, cluster=cluster)) for cluster in ("", "object", AUTOMATIC)
    }
    p = {cluster: dict(frame.select("scenario", "p").iter_rows()) for cluster, frame in tests.items()}

    assert p[AUTOMATIC]["MVP-N"] == p["object"]["MVP-N"] != p[""]["MVP-N"]
    assert p[AUTOMATIC]["QD"] == p[""]["QD"] != p["object"]["QD"]


def test_correlation_agrees_with_the_analysis_of_variance():
    """Of equal clusters, the pooled estimate is that of scipy's F: (F - 1) / (F + m - 1)."""
    rng, size = np.random.default_rng(1), 8
    values = (rng.random((30, size)) < rng.beta(2, 2, 30)[:, None]).astype(int)
    ratio = f_oneway(*values).statistic
    sums = pl.DataFrame({"cell": "m", "cluster": range(30), "n": size, "k": values.sum(axis=1)})

    assert intraclass_correlation(sums) == pytest.approx((ratio - 1) / (ratio + size - 1))
    assert intraclass_correlation(sums.with_columns(pl.lit(0).alias("k"))) is None
