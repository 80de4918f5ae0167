"""GPU-hours of each cell, for the episodes that were played in this folder; null if nothing was measured.

They are the hours in which a model's replicas played, times their GPUs (``rates.json``); null, never zero, on an unknown kind of
GPU. Reused episodes use none.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from envs.json_text import parse_json
from orchestrator.scheduling.forecast.throughput import ANSWERS, EPISODES, OBSERVED_FILE, read_observed
from orchestrator.storage import checksums, reused, run_folder
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.planned_episodes import filter_planned
from sweeps.spec import Sweep

HOUR = 3600.0
RESOURCE_COLUMNS = ("gpu_hours",)
"""The columns that are added; they may differ between runs with equal answers."""


def add_resources(rows: pl.DataFrame, folder: Path, sweep: Sweep) -> pl.DataFrame:
    """Return the rows, one per cell, with ``RESOURCE_COLUMNS``; replicates and decision maps get a share of their model's too."""
    hours = pl.DataFrame(_gpu_hours(folder, sweep), schema={"model": pl.String, "all_hours": pl.Float64}, orient="row")
    if hours.is_empty():
        return rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in RESOURCE_COLUMNS)
    used = pl.concat(_seconds_by_cell(folder, hours["model"])).sort("cell")
    share = pl.col("seconds") / pl.col("seconds").sum().over("model")
    used = used.join(hours, on="model", how="left").with_columns(
        pl.when(share.is_finite()).then(pl.col("all_hours") * share).alias("gpu_hours")
    )
    return rows.join(used.select("cell", *RESOURCE_COLUMNS), on="cell", how="left", maintain_order="left")


def _seconds_by_cell(folder: Path, models: Iterable[str]) -> Iterator[pl.DataFrame]:
    """Yield cell, model and seconds of the episodes played here, one model at a time to save memory."""
    planned = run_folder.planned_keys(folder)
    reused_keys = reused.read_reused(folder).filter(pl.col("judge").is_null()).select("key").lazy()
    for model in models:
        played = filter_planned(episodes(folder, model), planned).join(reused_keys, on="key", how="anti")
        yield played.group_by("cell", "model").agg(pl.col("seconds").sum()).collect()


def _gpu_hours(folder: Path, sweep: Sweep) -> list[tuple[str, float]]:
    """Return each model with its GPU-hours: the hours in which its replicas played, times their GPUs, over all attempts."""
    try:
        kind = str(parse_json(checksums.read_verified(folder / OBSERVED_FILE))["gpu"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    gpus = {model.name: model.gpus for model in sweep.models}
    hours: dict[str, float] = {}
    for work in (EPISODES, ANSWERS):
        for name, throughput in read_observed([folder], kind, work).items():
            if gpus.get(name):
                hours[name] = hours.get(name, 0.0) + throughput.busy / HOUR * gpus[name]
    return list(hours.items())
