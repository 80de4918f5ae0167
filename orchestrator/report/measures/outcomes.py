"""The score of every answered episode, in multiple choice and open-ended, and the cluster of its sample.

Paired tests and rankings compare these rows. An episode without an answer, or an answer without a verdict, has no row; in a
ranking a refused or unprocessable episode counts as wrong.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs.types import Ending
from orchestrator.report.measures.clustering import sample_clusters
from orchestrator.report.run_data import RunData, cached_per_run

NAMES = ("model", "scenario", "condition", "protocol", "sample_id")
UNKNOWN = (pl.lit(None, dtype=pl.Int64).alias("turns"), pl.lit(None, dtype=pl.Boolean).alias("looped"))


@cached_per_run
def outcomes(run_data: RunData, unanswered_as_wrong: bool = False) -> pl.DataFrame:
    """Return one row per scored episode: model, scenario, condition, protocol, sample_id, correct, turns, looped, cluster.

    ``looped`` is true if the turn limit ended the episode. For open-ended answers, ``correct`` is the judge's aggregate bit,
    and ``turns`` and ``looped`` are null. Refused and unprocessable episodes have rows only with ``unanswered_as_wrong``: not
    correct, with ``turns`` and ``looped`` null.
    ``cluster`` numbers the clusters of a scenario; it is null if samples count as independent.
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


def cluster_numbers(rows: pl.DataFrame) -> NDArray[np.int64] | None:
    """Return the clusters (n,) of rows of one scenario, or None if samples count as independent."""
    return None if rows["cluster"].null_count() == rows.height else rows["cluster"].to_numpy()
