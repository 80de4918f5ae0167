"""GPU-hours and energy of each cell: of the episodes that were played in this folder, null where nothing was read.

GPU-hours are the seconds in which a model's replicas played, times their GPUs (``rates.json``), and energy is what the driver of
every GPU of the cluster read while the sweep ran (``progress.jsonl``), shared among cells by their GPU-hours. A model that played
both protocols, or on no known kind of GPU, tells no GPU-hours: null, never zero. Episodes taken over took nothing here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from envs import regular
from orchestrator.scheduling.forecast.throughput import ANSWERS, EPISODES, OBSERVED, observed
from orchestrator.storage import checksums, reused, run_folder
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.planned_episodes import planned_only
from sweeps.spec import Sweep

HOUR = 3600.0
LONGEST_GAP_S = 1800.0
"""Seconds between two readings of one attempt at most, on a sweep of ten days; what is longer is a pause between attempts."""
READINGS = "progress.jsonl"
LARGEST = 64 << 20
"""Bytes of the readings that are read."""
WATTS = "_power_usage_watts"
USED = ("gpu_hours", "kwh")
"""The columns that are added; they differ from run to run for the same answers."""


def with_resources(rows: pl.DataFrame, folder: Path, sweep: Sweep) -> pl.DataFrame:
    """The rows, one a cell, with ``USED``: of the cell's episodes among all of the plan, replicates and maps included."""
    hours = pl.DataFrame(_gpu_hours(folder, sweep), schema={"model": pl.String, "all_hours": pl.Float64}, orient="row")
    if hours.is_empty():
        return rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in USED)
    found = pl.concat(_seconds(folder, hours["model"])).sort("cell")
    share = pl.col("seconds") / pl.col("seconds").sum().over("model")
    found = found.join(hours, on="model", how="left").with_columns(
        pl.when(share.is_finite()).then(pl.col("all_hours") * share).alias("gpu_hours")
    )
    energy, known = kilowatt_hours(folder), float(found["gpu_hours"].sum())
    each = None if energy is None or not known else energy / known
    found = found.with_columns((pl.col("gpu_hours") * pl.lit(each, pl.Float64)).alias("kwh"))
    return rows.join(found.select("cell", *USED), on="cell", how="left", maintain_order="left")


def _seconds(folder: Path, models: Iterable[str]) -> Iterator[pl.DataFrame]:
    """Cell, model and seconds of the episodes that were played here, a model at a time: all keys at once take much memory."""
    planned = run_folder.planned_keys(folder)
    taken = reused.reused(folder).filter(pl.col("judge").is_null()).select("key").lazy()
    for model in models:
        mine = planned_only(episodes(folder, model), planned).join(taken, on="key", how="anti")
        yield mine.group_by("cell", "model").agg(pl.col("seconds").sum()).collect()


def kilowatt_hours(folder: Path) -> float | None:
    """Energy of all GPUs of the cluster's nodes while the folder's attempts ran; None where no driver told its power."""
    readings = list(_readings(folder))
    if len(readings) < 2:
        return None
    joules = sum(
        (watts + before) / 2 * (at - earlier)
        for (earlier, before), (at, watts) in pairwise(readings)
        if 0 < at - earlier <= LONGEST_GAP_S
    )
    return joules / HOUR / 1000


def _readings(folder: Path) -> Iterator[tuple[float, float]]:
    """Time in seconds and watts of all GPUs, oldest first; torn and foreign lines are left out."""
    try:
        lines = regular.content(folder / READINGS, LARGEST).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            found = json.loads(line)
            watts = [_number(value) for name, value in found.items() if name.endswith(WATTS)]
            at = _number(found["at"]) / 1000
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        if watts:
            yield at, sum(watts)


def _number(value: Any) -> float:
    """A reading; raises ValueError for what none can be."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < 1e15
        or not math.isfinite(value)
    ):
        raise ValueError(value)
    return float(value)


def _gpu_hours(folder: Path, sweep: Sweep) -> list[tuple[str, float]]:
    """Model -> hours in which its replicas played, times their GPUs, in all attempts."""
    try:
        kind = str(json.loads(checksums.content(folder / OBSERVED))["gpu"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    gpus = {model.name: model.gpus for model in sweep.models}
    found: dict[str, float] = {}
    for work in (EPISODES, ANSWERS):
        for name, seen in observed([folder], kind, work).items():
            if gpus.get(name):
                found[name] = found.get(name, 0.0) + seen.busy / HOUR * gpus[name]
    return list(found.items())
