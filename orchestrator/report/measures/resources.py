"""Tokens, cost, GPU-hours and energy of each cell, for the episodes that were played in this folder.

Reused episodes cost nothing. GPU-hours and energy are those of ``cell_resources``.
"""

import polars as pl

from envs.plural import pluralize
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.cell_resources import RESOURCE_COLUMNS
from orchestrator.storage import engine_cache, reused
from orchestrator.storage.engine_cache import CACHED, cached_percentages


@cached_per_run
def resources(run_data: RunData) -> pl.DataFrame:
    """Return one row per planned cell: played, reused (episodes), prompt_tokens, reply_tokens, ``CACHED``, cost, gpu_hours, kwh.

    ``cost`` is in the currency of the prices; ``gpu_hours`` and ``kwh`` are null if not measured.
    """
    reused_keys = reused.read_reused(run_data.folder).filter(pl.col("judge").is_null()).select("key")
    played = run_data.episodes.join(reused_keys, on="key", how="anti")
    reused_counts = (
        run_data.episodes.join(reused_keys, on="key", how="semi").group_by("cell").agg(pl.len().alias("reused"))
    )
    sums = played.group_by("cell").agg(
        pl.len().alias("played"), pl.col("prompt_tokens", "reply_tokens", "cost").sum(), *cached_percentages()
    )
    names = run_data.planned.select("cell", "model", "scenario", "condition", "protocol").sort("cell")
    rows = names.join(sums, on="cell", how="left").join(reused_counts, on="cell", how="left")
    counts = ["played", "reused", "prompt_tokens", "reply_tokens"]
    rows = rows.with_columns(pl.col(counts).cast(pl.Int64).fill_null(0), pl.col("cost").fill_null(0.0))
    rows = rows.join(run_data.rows.select("cell", *RESOURCE_COLUMNS), on="cell", how="left", maintain_order="left")
    return rows.select(*names.columns, *counts, *CACHED, "cost", *RESOURCE_COLUMNS)


def describe_resources(run_data: RunData) -> str:
    """Return the sum over all cells as a sentence; empty if nothing is known."""
    rows = resources(run_data)
    hours, cost, energy = (float(rows[name].sum()) for name in ("gpu_hours", "cost", "kwh"))
    tokens = int(rows["prompt_tokens"].sum()) + int(rows["reply_tokens"].sum())
    parts = [f"{hours:,.1f} GPU-hours" if hours else "", f"{energy:,.2f} kWh" if energy else ""]
    parts += [f"{cost:,.2f} paid to services" if cost else "", f"{tokens:,} tokens" if tokens else ""]
    parts.append(engine_cache.describe_percentages(run_data.episodes.select(cached_percentages()).to_dicts()[0]))
    reused_count = int(rows["reused"].sum())
    parts += [f"{pluralize(reused_count, 'episode')} taken over from other runs" if reused_count else ""]
    return ", ".join(part for part in parts if part)
