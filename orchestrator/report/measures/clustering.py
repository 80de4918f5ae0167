"""The score of every answered episode and the cluster of its sample: how alike answers in a cluster are, and which count.

Samples of one object, picture or video tend to get the same answer. For each scenario, the intraclass correlation of the
answers is estimated over all cells of models together (analysis of variance, Donner 1986, Int. Stat. Rev. 54:67-82). By
default, intervals and tests use a scenario's clusters if they make the interval of a mean more than ``WIDER`` times as wide. The
choice is made once per scenario, so that all its intervals, tests and ranks agree.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]

from envs.types import Ending
from orchestrator.report.run_data import AUTOMATIC, CLUSTERS, RunData, cached_per_run
from orchestrator.report.statistics.clustered import Units
from orchestrator.report.statistics.proportion import Z

NAMES = ("model", "scenario", "condition", "protocol", "sample_id")
UNKNOWN = (pl.lit(None, dtype=pl.Int64).alias("turns"), pl.lit(None, dtype=pl.Boolean).alias("looped"))
WIDER = 1.2
INDEPENDENT = "95%, over samples taken as drawn independently"
SCHEMA = {
    **dict.fromkeys(("scenario", "clustering"), pl.String),
    **dict.fromkeys(("samples", "clusters", "largest"), pl.Int64),
    **dict.fromkeys(("icc", "design_effect", "wider"), pl.Float64),
    "counts": pl.Boolean,
}


@cached_per_run
def clustering(run_data: RunData) -> pl.DataFrame:
    """Return one row per scenario whose samples are available, and kind of cluster (``CLUSTERS``).

    Columns: scenario, clustering, samples, clusters, largest (samples of the largest cluster), icc, design_effect (of the
    variance of a mean), wider (width of the clustered interval divided by that of the plain one), counts (intervals and tests
    use these clusters). icc, design_effect and wider are null without answers, or if no cluster has two samples.
    """
    rows = list[tuple[object, ...]]()
    for scenario in run_data.samples:
        rows += [(scenario, name, *_describe(run_data, scenario, name)) for name in CLUSTERS]
    frame = pl.DataFrame(rows, schema={name: kind for name, kind in SCHEMA.items() if name != "counts"}, orient="row")
    if run_data.cluster != AUTOMATIC:
        return frame.with_columns((pl.col("clustering") == run_data.cluster).alias("counts"))
    widest = pl.col("wider").rank("ordinal", descending=True).over("scenario") == 1
    return frame.with_columns((widest & (pl.col("wider") > WIDER)).fill_null(False).alias("counts"))


@cached_per_run
def sample_clusters(run_data: RunData) -> pl.DataFrame:
    """Return scenario, sample_id and cluster (numbered per scenario) of samples for which intervals and tests use clusters."""
    schema = {"scenario": pl.String, "sample_id": pl.Int64, "cluster": pl.Int64}
    if run_data.cluster == AUTOMATIC:
        chosen = clustering(run_data).filter("counts").select("scenario", "clustering").rows()
    else:
        chosen = [(scenario, run_data.cluster) for scenario in run_data.samples] if run_data.cluster else []
    parts = [number_clusters(run_data, scenario, name) for scenario, name in chosen]
    return pl.concat([pl.DataFrame(schema=schema), *parts])


@cached_per_run
def number_clusters(run_data: RunData, scenario: str, name: str) -> pl.DataFrame:
    """Return scenario, sample_id and cluster of the samples of one scenario, by one kind of cluster."""
    rule, numbers = CLUSTERS[name][0], dict[str, int]()
    samples = run_data.samples[scenario].values()
    rows = [(scenario, sample.id, numbers.setdefault(rule(sample), len(numbers))) for sample in samples]
    return pl.DataFrame(rows, schema={"scenario": pl.String, "sample_id": pl.Int64, "cluster": pl.Int64}, orient="row")


def describe_clusters(run_data: RunData) -> str:
    """Describe the units that intervals and tests treat as independent."""
    if not run_data.cluster:
        return INDEPENDENT
    rows = clustering(run_data).filter("counts")
    if rows.is_empty():
        reason = "no clusters widen an interval" if run_data.samples else "clusters need the data folder"
        return f"{INDEPENDENT} ({reason})"
    clusters_text = ", ".join(
        f"{row['clusters']:,} in {row['scenario']} ({CLUSTERS[row['clustering']][1]}"
        + ("" if row["icc"] is None else f"; icc {row['icc']:.2f}, design effect {row['design_effect']:.1f}")
        + ")"
        for row in rows.iter_rows(named=True)
    )
    others = ", other scenarios over independent samples" if rows["scenario"].n_unique() < len(run_data.samples) else ""
    return f"95%, over clusters: {clusters_text}{others}"


def _describe(run_data: RunData, scenario: str, name: str) -> tuple[object, ...]:
    """Return samples, clusters, largest, icc, design_effect and wider."""
    numbers = number_clusters(run_data, scenario, name)
    played = _answers(run_data).filter(scenario=scenario)
    sizes = numbers.join(played, on="sample_id", how="semi")["cluster"].value_counts()["count"]
    clusters, samples, largest = len(sizes), int(sizes.sum()), sizes.max()
    answers = played.join(numbers.select("sample_id", "cluster"), on="sample_id", maintain_order="left")
    sums = answers.group_by("cell", "cluster", maintain_order=True).agg(n=pl.len(), k=pl.col("correct").sum())
    correlation = intraclass_correlation(sums) if samples > clusters else None
    if correlation is None:
        return (samples, clusters, largest, None, None, None)
    effect = max(1.0, 1 + (float((sizes.cast(pl.Float64) ** 2).sum()) / samples - 1) * correlation)
    wider = effect**0.5 * (float(stdtrit(clusters - 1, 0.975)) / Z if effect > 1 else 1.0)
    return (samples, clusters, largest, correlation, effect, wider)


def intraclass_correlation(sums: pl.DataFrame) -> float | None:
    """Return the intraclass correlation of correctness, pooled over cells; None if the answers do not vary.

    ``sums`` has one row per cell and cluster: cell, n (answers), k (right answers).
    """
    n, k = pl.col("n"), pl.col("k")
    cells = sums.group_by("cell").agg(
        n.sum().alias("size"), pl.len().alias("clusters"), (n**2).sum().alias("squares"),
        (n * (k / n - k.sum() / n.sum()) ** 2).sum().alias("between"), (k * (1 - k / n)).sum().alias("within"),
    ).filter((pl.col("clusters") > 1) & (pl.col("size") > pl.col("clusters"))).sort("cell")  # fmt: skip
    size, clusters, squares, between, within = cells.drop("cell").cast(pl.Float64).to_numpy().T
    mean_between, mean_within = between / (clusters - 1), within / (size - clusters)
    adjusted_size = (size - squares / size) / (clusters - 1)
    total = float(np.sum((mean_between - mean_within) / adjusted_size + mean_within)) if len(cells) else 0.0
    return float(np.sum((mean_between - mean_within) / adjusted_size)) / total if total > 0 else None


@cached_per_run
def _answers(run_data: RunData) -> pl.DataFrame:
    """Return scenario, cell, sample_id and correct of every scored or judged answer of the models."""
    columns = ["model", "scenario", "cell", "sample_id", "correct"]
    rows = pl.concat([run_data.scored.select(columns), run_data.judged.select(columns).drop_nulls("correct")])
    return run_data.models_or_baselines(rows).with_columns(pl.col("correct").cast(pl.Int64))


@cached_per_run
def outcomes(run_data: RunData, unanswered_as_wrong: bool = False) -> pl.DataFrame:
    """Return one row per scored episode: model, scenario, condition, protocol, sample_id, correct, turns, looped, cluster.

    ``looped`` is true if the turn limit ended the episode. For open-ended answers, ``correct`` is the judge's aggregate bit,
    and ``turns`` and ``looped`` are null, as those of refused and unprocessable episodes, which have rows, not correct, only with
    ``unanswered_as_wrong``. ``cluster`` numbers the clusters of a scenario; it is null if samples count as independent.
    """
    looped = (pl.col("ending") == Ending.LIMIT).alias("looped")
    answered = run_data.scored.select(*NAMES, "correct", pl.col("turns").cast(pl.Int64), looped)
    parts = [answered, run_data.judged.drop_nulls("correct").select(*NAMES, "correct", *UNKNOWN)]
    if unanswered_as_wrong:
        unanswered = run_data.episodes.filter(pl.col("ending").is_in((Ending.REFUSED, Ending.UNPROCESSABLE)))
        parts.append(unanswered.select(*NAMES, pl.lit(False).alias("correct"), *UNKNOWN))
    return add_clusters(pl.concat(parts), run_data)


def add_clusters(rows: pl.DataFrame, run_data: RunData) -> pl.DataFrame:
    """Return the same rows, in order, with the column ``cluster`` of their scenario and sample_id."""
    if not run_data.cluster or not run_data.samples:
        return rows.with_columns(pl.lit(None, dtype=pl.Int64).alias("cluster"))
    return rows.join(sample_clusters(run_data), on=["scenario", "sample_id"], how="left", maintain_order="left")


def independent_units(rows: pl.DataFrame, owners: NDArray[np.int64], size: int) -> Units:
    """Return the units of rows that belong to ``size`` means, by the columns ``cluster`` and, if there is one, ``count``."""
    counts = rows["count"].to_numpy() if "count" in rows.columns else None
    clusters = None if rows["cluster"].null_count() == rows.height else rows["cluster"].fill_null(-1).to_numpy()
    return Units(owners, clusters, counts, size)


def number_groups(rows: pl.DataFrame, names: Sequence[str]) -> tuple[NDArray[np.int64], pl.DataFrame]:
    """Return the number of each row's group, from 0, and one row of ``names`` per group; rows of a group are adjacent."""
    numbers = rows.select(pl.struct(names).rle_id().cast(pl.Int64)).to_series().to_numpy()
    return numbers, rows.filter(pl.Series(np.diff(numbers, prepend=-1) > 0, dtype=pl.Boolean)).select(names)


def attach(rows: pl.DataFrame, columns: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
    """Return the rows with further columns; NaN becomes null."""
    return rows.hstack(pl.DataFrame(columns, nan_to_null=True))
