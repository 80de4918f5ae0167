"""Tokens, cost and GPU-hours of each cell, for the episodes that were played in this folder.

Reused episodes cost nothing. GPU-hours are those of ``cell_resources``.
"""

import polars as pl

from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.cell_resources import RESOURCE_COLUMNS
from orchestrator.report.scores.metrics import CACHED, cached_percentages
from orchestrator.storage import reused


@cached_per_run
def resources(run_data: RunData) -> pl.DataFrame:
    """Return one row per planned cell: played, reused (episodes), prompt_tokens, reply_tokens, ``CACHED``, cost, gpu_hours.

    ``cost`` is in the currency of the prices; ``gpu_hours`` is null if not measured.
    """
    reused_keys = reused.read_reused(run_data.folder).filter(pl.col("judge").is_null()).select("key")
    played, taken = (
        run_data.episodes.join(reused_keys, on="key", how=how).group_by("cell") for how in ("anti", "semi")
    )
    tokens = pl.col("prompt_tokens", "reply_tokens", "cost").sum()
    sums = played.agg(pl.len().alias("played"), tokens, *cached_percentages())
    names = ["cell", "model", "scenario", "condition", "protocol"]
    counts = ["played", "reused", "prompt_tokens", "reply_tokens"]
    rows = run_data.planned.select(names).join(sums, on="cell", how="left")
    rows = rows.join(taken.agg(pl.len().alias("reused")), on="cell", how="left")
    rows = rows.with_columns(pl.col(counts).cast(pl.Int64).fill_null(0), pl.col("cost").fill_null(0.0)).sort("cell")
    rows = rows.join(run_data.rows.select("cell", *RESOURCE_COLUMNS), on="cell", how="left", maintain_order="left")
    return rows.select(*names, *counts, *CACHED, "cost", *RESOURCE_COLUMNS)
