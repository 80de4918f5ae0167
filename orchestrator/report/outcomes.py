"""What every answered episode scored, in multiple choice and open-ended, and the cluster that its sample belongs to.

Paired tests and rankings compare these rows; an episode without an answer, or an answer without a verdict, has none.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs.types import Ending
from orchestrator.report.clusters import CLUSTERS
from orchestrator.report.metrics import packages
from orchestrator.report.run_data import RunData, once

INDEPENDENT = "95%, over samples taken as drawn independently (--cluster object or picture takes them in clusters)"
NAMES = ("model", "scenario", "condition", "protocol", "sample_id")


@once
def outcomes(run_data: RunData) -> pl.DataFrame:
    """One row an outcome: model, scenario, condition, protocol, sample_id, correct, turns, cluster.

    ``correct``: the right category in multiple choice; in open-ended answers what the judge's aggregate bit says. ``turns``
    is null there. ``cluster`` numbers the clusters of a scenario, null where samples count one by one.
    """
    chosen = run_data.scored.select(*NAMES, "correct", pl.col("turns").cast(pl.Int64))
    rows = pl.concat([chosen, _judged(run_data)])
    return with_clusters(rows, run_data)


def with_clusters(rows: pl.DataFrame, run_data: RunData) -> pl.DataFrame:
    """The same rows, in the same order, with the column ``cluster``, from their scenario and sample_id."""
    if not run_data.cluster:
        return rows.with_columns(pl.lit(None, dtype=pl.Int64).alias("cluster"))
    return rows.join(clusters(run_data), on=["scenario", "sample_id"], how="left", maintain_order="left")


@once
def clusters(run_data: RunData) -> pl.DataFrame:
    """One row a sample at hand: scenario, sample_id, cluster (numbered in each scenario)."""
    rule, _ = CLUSTERS[run_data.cluster]
    rows = []
    for scenario, samples in run_data.samples.items():
        numbers: dict[str, int] = {}
        rows += [(scenario, sample.id, numbers.setdefault(rule(sample), len(numbers))) for sample in samples.values()]
    schema = {"scenario": pl.String, "sample_id": pl.Int64, "cluster": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def told(run_data: RunData) -> str:
    """What intervals and tests take as drawn independently, in words."""
    if not run_data.cluster:
        return INDEPENDENT
    counts = clusters(run_data).group_by("scenario", maintain_order=True).agg(pl.col("cluster").n_unique())
    named = ", ".join(f"{number:,} in {scenario}" for scenario, number in counts.iter_rows())
    return f"95%, over clusters: {CLUSTERS[run_data.cluster][1]} ({named})"


def _judged(run_data: RunData) -> pl.DataFrame:
    bit = packages("aggregate") if run_data.strict else pl.col("aggregate")
    verdicts = run_data.verdicts.select("key", bit.alias("correct")).filter(pl.col("correct").is_not_null())
    answers = run_data.episodes.filter(pl.col("ending") == Ending.ANSWERED).select("key", *NAMES)
    return answers.join(verdicts, on="key").select(*NAMES, "correct", pl.lit(None, dtype=pl.Int64).alias("turns"))


def groups_of(rows: pl.DataFrame) -> NDArray[np.int64] | None:
    """The clusters (n,) of rows of one scenario; None where samples count one by one."""
    return None if rows["cluster"].null_count() == rows.height else rows["cluster"].to_numpy()
