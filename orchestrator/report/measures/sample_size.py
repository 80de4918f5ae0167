"""Number of samples that a cell needs for an interval of a given half-width, or to detect a paired difference.

It is computed with the intervals and tests of the report (differences at Holm's level), before anything is played.
"""

from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path

import polars as pl

from envs.samples import paper_ids
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.report.measures.paired_tests import condition_pairs, model_pairs
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.exact_tests import ALPHA, POWER, mcnemar_power
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.scheduling.forecast.forecast import forecast
from orchestrator.scheduling.forecast.workload import count_work, sibling_runs, split_by_gpu
from orchestrator.storage.schemas import EPISODES
from sweeps.load import SweepError
from sweeps.protocol import ZERO_SHOT
from sweeps.spec import Protocol, Sweep

DISCORDANT = (0.1, 0.2, 0.3, 0.5)
"""Shares of discordant samples, between two conditions or models, for which effects are planned."""
MOST = 10_000_000
"""Largest number of samples that is tried."""


def half_width(n: int, share: float = 0.5) -> float:
    """Return the half-width, in points, of the 95% interval of accuracy ``share`` from ``n`` samples."""
    low, high = proportion_interval(share * n, n)
    return 50 * (high - low)


def samples_for_precision(points: float) -> int | None:
    """Return the fewest samples whose interval is at most +-``points`` at any accuracy (it is widest at 50%)."""
    return _search_fewest(lambda n: half_width(n) <= points)


def samples_for_effect(points: float, discordant: float, comparisons: int = 1) -> int | None:
    """Return the samples needed to detect a paired difference of ``points`` with power 80% at Holm's first step.

    ``discordant`` is the share of discordant samples, ``comparisons`` the size of the family. None if the difference is
    larger than that share, or if more than ``MOST`` samples are needed.
    """
    difference = points / 100
    if difference > discordant:
        return None
    return _search_fewest(lambda n: mcnemar_power(n, discordant, difference, ALPHA / comparisons) >= POWER)


def comparison_families(sweep: Sweep, planned: pl.DataFrame) -> dict[str, int]:
    """Return how many multiple-choice comparisons are corrected together: those of conditions, and those of models."""
    run_data = RunData(Path(), sweep, planned, pl.DataFrame(schema=EPISODES))
    families = {
        f"conditions with {ZERO_SHOT}": condition_pairs(run_data)[1],
        f"models under {ZERO_SHOT}": model_pairs(run_data, ZERO_SHOT)[1],
    }
    sizes = {name: family.filter(protocol=Protocol.MCQA.value).height for name, family in families.items()}
    return {name: size for name, size in sizes.items() if size}


def describe_sample_sizes(
    sweep: Sweep, precision: float | None, detect: float | None, gpus: int, gpu_type: str
) -> list[str]:
    """Return the lines of ``plan --precision`` and ``--detect``: samples per cell, samples of each scenario, GPU-hours.

    Without the data folder, the samples of the published benchmark are counted. Raises BadData or SweepError.
    """
    if Protocol.MCQA not in sweep.protocols:
        raise SweepError("--precision and --detect plan multiple choice, which this sweep does not play")
    unlimited = sweep.model_copy(update={"selection": sweep.selection.model_copy(update={"limit": None, "ids": {}})})
    planned = _plan_cells(unlimited)
    cells = planned.filter(protocol=Protocol.MCQA.value)
    samples = dict(cells.group_by("scenario", maintain_order=True).agg(pl.col("planned").max()).iter_rows())
    lines, sizes_needed = [], []
    if precision is not None:
        needed = samples_for_precision(precision)
        lines += _precision_lines(precision, needed, samples)
        sizes_needed.append(needed)
    if detect is not None:
        for family, size in comparison_families(sweep, planned).items():
            sizes = [samples_for_effect(detect, share, size) for share in DISCORDANT]
            lines += _effect_lines(detect, family, size, sizes)
            sizes_needed.append(sizes[DISCORDANT.index(0.3)])
    sample_sizes = sorted({n for n in sizes_needed if n is not None})
    return lines + [_describe_hours(unlimited, planned, n, gpus, gpu_type) for n in sample_sizes]


def _plan_cells(sweep: Sweep) -> pl.DataFrame:
    if "://" in sweep.data or Path(sweep.data).is_dir():
        return planned_rows(build_plan(sweep))
    rows = [
        {
            "cell": cell.key, "model": cell.model.name, "scenario": cell.scenario, "condition": cell.condition.name,
            "protocol": cell.protocol.value, "planned": len(paper_ids()[cell.scenario]),
        }
        for cell in sweep.cells()
    ]  # fmt: skip
    return pl.DataFrame(rows)


def _precision_lines(points: float, needed: int | None, samples: dict[str, int]) -> list[str]:
    if needed is None:
        return [f"+-{points:g} points: more than {MOST:,} samples per cell"]
    fewer = [f"{name} {n:,} (+-{half_width(n):.1f})" for name, n in samples.items() if n < needed]
    short = f"; scenarios with fewer samples: {', '.join(fewer)}" if fewer else ""
    return [f"+-{points:g} points at 95%: {needed:,} samples per cell at 50% accuracy, fewer at any other{short}"]


def _effect_lines(points: float, family: str, size: int, sizes: list[int | None]) -> list[str]:
    parts = [
        f"{n:,} ({share:.0%})" if n is not None else f"none ({share:.0%})"
        for share, n in zip(DISCORDANT, sizes, strict=True)
    ]
    return [
        f"to detect {points:g} points between {family} with {POWER:.0%} power among {size:,} comparisons (Holm, p <= "
        f"{ALPHA / size:.2g}): {', '.join(parts)} samples per cell, by the share of samples that end differently"
    ]


def _describe_hours(sweep: Sweep, planned: pl.DataFrame, n: int, gpus: int, gpu_type: str) -> str:
    """Return the GPU-hours of multiple choice with ``n`` samples per cell, or all if a scenario has fewer."""
    if not split_by_gpu(sweep)[0]:
        return f"{n:,} samples per cell: no model takes a GPU"
    sizes = dict(planned.filter(protocol=Protocol.MCQA.value).select("cell", "planned").iter_rows())
    work = count_work((cell, min(n, sizes[cell.key])) for cell in sweep.cells() if cell.key in sizes)
    estimate = forecast(sweep, gpus, gpu_type, sibling_runs(sweep), work)
    hours = f"{estimate.gpu_hours:.1f} GPU-hours in use on {gpus} {gpu_type.upper()}"
    return f"{n:,} samples per cell: {estimate.episodes:,} episodes, {hours}"


def _search_fewest(enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number of samples that is ``enough``, by bisection; None above ``MOST``."""
    high = 1
    while not enough(high):
        if high >= MOST:
            return None
        high *= 2
    return bisect_left(range(high), True, high // 2 + 1, key=enough)
