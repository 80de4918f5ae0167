"""What each cell took: tokens, money, GPU-hours and energy, of the episodes that were played in this folder.

GPU-hours are the seconds in which a model's replicas played, times their GPUs (``rates.json``), and energy is what the driver of
every GPU of the cluster read while the sweep ran (``progress.jsonl``), shared among cells by their GPU-hours. A model that played
both protocols, or on no known kind of GPU, tells no GPU-hours: null, never zero. Episodes taken over cost nothing here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from envs import regular
from orchestrator.report.run_data import RunData, once
from orchestrator.report.wording import counted
from orchestrator.scheduling.forecast.throughput import ANSWERS, EPISODES, OBSERVED, observed
from orchestrator.storage import checksums, engine_cache, reused
from orchestrator.storage.engine_cache import CACHED, cached

HOUR = 3600.0
LONGEST_GAP_S = 1800.0
"""Seconds between two readings of one attempt at most, on a sweep of ten days; what is longer is a pause between attempts."""
READINGS = "progress.jsonl"
LARGEST = 64 << 20
"""Bytes of the readings that are read."""
WATTS = "_power_usage_watts"


@once
def resources(run_data: RunData) -> pl.DataFrame:
    """One row a planned cell: played, reused (episodes), prompt_tokens, reply_tokens, ``CACHED``, cost, gpu_hours, kwh.

    ``cost`` is in the currency of the prices; ``gpu_hours`` and ``kwh`` are null where nothing was read.
    """
    taken = reused.reused(run_data.folder).filter(pl.col("judge").is_null()).select("key")
    mine = run_data.episodes.join(taken, on="key", how="anti")
    others = run_data.episodes.join(taken, on="key", how="semi").group_by("cell").agg(pl.len().alias("reused"))
    sums = mine.group_by("cell").agg(
        pl.len().alias("played"), pl.col("prompt_tokens", "reply_tokens", "cost", "seconds").sum(), *cached()
    )
    names = run_data.planned.select("cell", "model", "scenario", "condition", "protocol").sort("cell")
    rows = names.join(sums, on="cell", how="left").join(others, on="cell", how="left")
    counts = ["played", "reused", "prompt_tokens", "reply_tokens"]
    rows = rows.with_columns(pl.col(counts).cast(pl.Int64).fill_null(0), pl.col("cost", "seconds").fill_null(0.0))
    hours = pl.DataFrame(_gpu_hours(run_data), schema={"model": pl.String, "all_hours": pl.Float64}, orient="row")
    rows = rows.join(hours, on="model", how="left", maintain_order="left")
    share = pl.col("seconds") / pl.col("seconds").sum().over("model")
    rows = rows.with_columns(pl.when(share.is_finite()).then(pl.col("all_hours") * share).alias("gpu_hours"))
    energy, known = kilowatt_hours(run_data.folder), float(rows["gpu_hours"].sum())
    each = None if energy is None or not known else energy / known
    rows = rows.with_columns((pl.col("gpu_hours") * pl.lit(each, pl.Float64)).alias("kwh"))
    return rows.select(*names.columns, *counts, *CACHED, "cost", "gpu_hours", "kwh")


def told(run_data: RunData) -> str:
    """What all of it took, as a sentence; empty where nothing is known."""
    rows = resources(run_data)
    hours, cost, energy = (float(rows[name].sum()) for name in ("gpu_hours", "cost", "kwh"))
    tokens = int(rows["prompt_tokens"].sum()) + int(rows["reply_tokens"].sum())
    parts = [f"{hours:,.1f} GPU-hours" if hours else "", f"{energy:,.2f} kWh" if energy else ""]
    parts += [f"{cost:,.2f} paid to services" if cost else "", f"{tokens:,} tokens" if tokens else ""]
    parts.append(engine_cache.told(run_data.episodes.select(cached()).to_dicts()[0]))
    taken = int(rows["reused"].sum())
    parts += [f"{counted(taken, 'episode')} taken over from other runs" if taken else ""]
    return ", ".join(part for part in parts if part)


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


def _gpu_hours(run_data: RunData) -> list[tuple[str, float]]:
    """Model -> hours in which its replicas played, times their GPUs, in all attempts."""
    try:
        kind = str(json.loads(checksums.content(run_data.folder / OBSERVED))["gpu"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    gpus = {model.name: model.gpus for model in run_data.sweep.models}
    found: dict[str, float] = {}
    for work in (EPISODES, ANSWERS):
        for name, seen in observed([run_data.folder], kind, work).items():
            if gpus.get(name):
                found[name] = found.get(name, 0.0) + seen.busy / HOUR * gpus[name]
    return list(found.items())
