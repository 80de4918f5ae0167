"""GPU-hours of each cell, for the episodes that were played in this folder; null if nothing was measured.

GPU-hours are the hours in which a model's replicas played, times their GPUs (``rates.json``); those of a model are null, never
zero, on an unknown kind of GPU. Reused episodes use none.
"""

from pathlib import Path

import polars as pl

from orchestrator.scheduling.forecast.throughput import ANSWERS, EPISODES, read_observed
from orchestrator.storage import reused, run_folder
from orchestrator.storage.episode_store import episodes, filter_planned
from sweeps.spec import Sweep

RESOURCE_COLUMNS = ("gpu_hours",)
"""The columns that are added; they may differ between runs with equal answers."""


def add_resources(rows: pl.DataFrame, folder: Path, sweep: Sweep) -> pl.DataFrame:
    """Return the rows, one per cell, with ``RESOURCE_COLUMNS``; replicates and decision maps get a share of their model's too."""
    hours = _gpu_hours(folder, sweep)
    if not hours:
        return rows.with_columns(pl.lit(None, pl.Float64).alias("gpu_hours"))
    planned = run_folder.planned_keys(folder)
    reused_keys = reused.read_reused(folder).filter(pl.col("judge").is_null()).select("key").lazy()
    parts = []
    for model, all_hours in hours.items():  # one at a time, to save memory
        played = filter_planned(episodes(folder, model), planned).join(reused_keys, on="key", how="anti")
        seconds = played.group_by("cell").agg(pl.col("seconds").sum()).collect()
        share = pl.col("seconds") / pl.col("seconds").sum()
        parts.append(seconds.select("cell", pl.when(share.is_finite()).then(all_hours * share).alias("gpu_hours")))
    return rows.join(pl.concat(parts), on="cell", how="left", maintain_order="left")


def _gpu_hours(folder: Path, sweep: Sweep) -> dict[str, float]:
    """Return the GPU-hours of each model: the hours in which its replicas played, times their GPUs, over all attempts."""
    gpus, hours = {model.name: model.gpus for model in sweep.models}, dict[str, float]()
    for work in (EPISODES, ANSWERS):
        for name, throughput in read_observed([folder], "", work).items():
            if gpus.get(name):
                hours[name] = hours.get(name, 0.0) + throughput.busy / 3600 * gpus[name]
    return hours
