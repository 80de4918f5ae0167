"""How many samples a cell needs: for an interval of a given half-width, or to find a paired difference at Holm's level.

Reckoned by the intervals and tests that the report shows, before anything is played.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from envs.samples import kept
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.report.paired_tests import ALPHA, POWER, mcnemar_power, pairs_of_conditions, pairs_of_models
from orchestrator.report.proportion import proportion_interval
from orchestrator.report.run_data import RunData
from orchestrator.scheduling.forecast.forecast import HOUR, forecast
from orchestrator.scheduling.forecast.workload import by_gpu, counted, runs_beside
from orchestrator.storage.episode_store import EPISODES
from sweeps.load import SweepError
from sweeps.spec import Protocol, Sweep

DISCORDANT = (0.1, 0.2, 0.3, 0.5)
"""Shares of samples that end otherwise under the two conditions, or with the two models, for which effects are planned."""
MOST = 10_000_000
"""Samples beyond which nobody plans."""
ZERO_SHOT = "zero-shot"


def half_width(n: int, share: float = 0.5) -> float:
    """Half the width, in points, of the 95% interval of a cell whose accuracy is ``share``, from ``n`` samples."""
    low, high = proportion_interval(share * n, n)
    return 50 * (high - low)


def for_precision(points: float) -> int | None:
    """The fewest samples a cell whose interval is no wider than +-``points`` at any accuracy (it is widest at 50%)."""
    return _fewest(lambda n: half_width(n) <= points)


def for_effect(points: float, discordant: float, comparisons: int = 1) -> int | None:
    """Samples from which on a paired difference of ``points`` is found with power 80% at Holm's first step.

    ``discordant`` is the share of samples that end otherwise, ``comparisons`` the size of the family.
    None where the difference is larger than that share allows, or nobody could play so many samples.
    """
    difference = points / 100
    if difference > discordant:
        return None
    return _fewest(lambda n: mcnemar_power(n, discordant, difference, ALPHA / comparisons) >= POWER)


def families(sweep: Sweep, planned: pl.DataFrame) -> dict[str, int]:
    """What is compared -> comparisons that are corrected together in multiple choice: conditions with zero-shot, two models."""
    run_data = RunData(Path(), sweep, planned, pl.DataFrame(schema=EPISODES))
    found = {}
    for name, (_, family) in {
        f"conditions with {ZERO_SHOT}": pairs_of_conditions(run_data, ZERO_SHOT),
        f"models under {ZERO_SHOT}": pairs_of_models(run_data, ZERO_SHOT),
    }.items():
        if size := family.filter(protocol=Protocol.MCQA.value).height:
            found[name] = size
    return found


def lines(sweep: Sweep, precision: float | None, detect: float | None, gpus: int, gpu_type: str) -> list[str]:
    """What ``plan --precision`` and ``--detect`` print: samples a cell, what each scenario has, GPU-hours.

    Where the data folder is not there the published benchmark is counted. Raises BadData or SweepError.
    """
    if Protocol.MCQA not in sweep.protocols:
        raise SweepError("--precision and --detect plan multiple choice, which this sweep does not play")
    whole = sweep.model_copy(update={"selection": sweep.selection.model_copy(update={"limit": None, "ids": {}})})
    planned = _planned(whole)
    samples = dict(
        planned.filter(protocol=Protocol.MCQA.value)
        .group_by("scenario", maintain_order=True)
        .agg(pl.col("planned").max())
        .iter_rows()
    )
    found, wanted = [], []
    if precision is not None:
        needed = for_precision(precision)
        found += _precision_lines(precision, needed, samples)
        wanted.append(needed)
    if detect is not None:
        for what, size in families(sweep, planned).items():
            sizes = [for_effect(detect, share, size) for share in DISCORDANT]
            found += _effect_lines(detect, what, size, sizes)
            wanted.append(sizes[DISCORDANT.index(0.3)])
    known = sorted({n for n in wanted if n is not None})
    return found + [_hours(whole, planned, n, gpus, gpu_type) for n in known]


def _planned(sweep: Sweep) -> pl.DataFrame:
    if "://" in sweep.data or Path(sweep.data).is_dir():
        return planned_rows(build_plan(sweep))
    rows = [
        (cell.key, cell.model.name, cell.scenario, cell.condition.name, cell.protocol.value, len(kept()[cell.scenario]))
        for cell in sweep.cells()
    ]
    return pl.DataFrame(rows, schema=["cell", "model", "scenario", "condition", "protocol", "planned"], orient="row")


def _precision_lines(points: float, needed: int | None, samples: dict[str, int]) -> list[str]:
    if needed is None:
        return [f"+-{points:g} points: more than {MOST:,} samples a cell"]
    fewer = [f"{name} {n:,} (+-{half_width(n):.1f})" for name, n in samples.items() if n < needed]
    short = f"; fewer has {', '.join(fewer)}" if fewer else ""
    return [f"+-{points:g} points at 95%: {needed:,} samples a cell where accuracy is 50%, fewer elsewhere{short}"]


def _effect_lines(points: float, what: str, size: int, sizes: list[int | None]) -> list[str]:
    parts = [
        f"{n:,} ({share:.0%})" if n is not None else f"none ({share:.0%})"
        for share, n in zip(DISCORDANT, sizes, strict=True)
    ]
    return [
        f"{points:g} points between {what}, found with {POWER:.0%} power among {size:,} comparisons (Holm, p <= "
        f"{ALPHA / size:.2g}): {', '.join(parts)} samples a cell, by the share of samples that end otherwise"
    ]


def _hours(sweep: Sweep, planned: pl.DataFrame, n: int, gpus: int, gpu_type: str) -> str:
    """GPU-hours of the multiple choice of the sweep with ``n`` samples a cell, as far as scenarios have them."""
    if not by_gpu(sweep)[0]:
        return f"{n:,} samples a cell: no model takes a GPU"
    sizes = dict(planned.filter(protocol=Protocol.MCQA.value).select("cell", "planned").iter_rows())
    work = counted((cell, min(n, sizes[cell.key])) for cell in sweep.cells() if cell.key in sizes)
    found = forecast(sweep, gpus, gpu_type, runs_beside(sweep), work).found
    hours = f"{found.busy / HOUR:.1f} GPU-hours in use on {gpus} {gpu_type.upper()}"
    return f"{n:,} samples a cell: {found.delivered:,} episodes, {hours}"


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The fewest samples that are enough, where more are enough too but for steps of a few samples."""
    high = 1
    while not enough(high):
        if high >= MOST:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
