"""GPU-hours and energy of each cell, for the episodes that were played in this folder; null if nothing was measured.

GPU-hours are the hours in which a model's replicas played, times their GPUs (``rates.json``). Energy is the integral of the
power readings of all GPUs of the cluster while the sweep ran (``progress.jsonl``), divided among cells by their GPU-hours.
GPU-hours of a model are null, never zero, on an unknown kind of GPU. Reused episodes use none.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl

from envs.json_text import parse_json
from orchestrator.scheduling.forecast.throughput import ANSWERS, EPISODES, OBSERVED_FILE, read_observed
from orchestrator.storage import checksums, reused, run_folder
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.planned_episodes import filter_planned
from orchestrator.storage.progress_log import stored_points
from sweeps.spec import Sweep

HOUR = 3600.0
LONGEST_GAP_S = 1800.0
"""Longest time between two readings of one attempt; a longer gap is a pause between attempts."""
WATTS = "_power_usage_watts"
RESOURCE_COLUMNS = ("gpu_hours", "kwh")
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
    energy, total_hours = kilowatt_hours(folder), float(used["gpu_hours"].sum())
    kwh_per_hour = None if energy is None or not total_hours else energy / total_hours
    used = used.with_columns((pl.col("gpu_hours") * pl.lit(kwh_per_hour, pl.Float64)).alias("kwh"))
    return rows.join(used.select("cell", *RESOURCE_COLUMNS), on="cell", how="left", maintain_order="left")


def _seconds_by_cell(folder: Path, models: Iterable[str]) -> Iterator[pl.DataFrame]:
    """Yield cell, model and seconds of the episodes played here, one model at a time to save memory."""
    planned = run_folder.planned_keys(folder)
    reused_keys = reused.read_reused(folder).filter(pl.col("judge").is_null()).select("key").lazy()
    for model in models:
        played = filter_planned(episodes(folder, model), planned).join(reused_keys, on="key", how="anti")
        yield played.group_by("cell", "model").agg(pl.col("seconds").sum()).collect()


def kilowatt_hours(folder: Path) -> float | None:
    """Return the energy of all GPUs of the cluster while the folder's attempts ran, in kWh; None without power readings."""
    readings = list(_read_power(folder))
    if len(readings) < 2:
        return None
    joules = sum(
        (watts + watts_before) / 2 * (at - earlier)
        for (earlier, watts_before), (at, watts) in pairwise(readings)
        if 0 < at - earlier <= LONGEST_GAP_S
    )
    return joules / HOUR / 1000


def _read_power(folder: Path) -> Iterator[tuple[float, float]]:
    """Yield time in seconds and watts of all GPUs, oldest first."""
    for point in stored_points(folder):
        watts = [value for name, value in point.metrics.items() if name.endswith(WATTS) and value >= 0]
        if watts:
            yield point.at / 1000, sum(watts)


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
