"""Intervals of shares and means over episodes that ``estimates`` does not have, by the same two methods."""

from collections.abc import Mapping, Sequence

import polars as pl

from orchestrator.report.measures.outcomes import add_clusters, cluster_numbers
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.clustered import estimate_mean, share_interval, t_interval

Range = tuple[float, float]
"""Least and greatest possible value."""
ENDS = ("", "_low", "_high")


def add_bounds(
    means: pl.DataFrame, episodes: pl.DataFrame, run_data: RunData, ranges: Mapping[str, Range | None]
) -> pl.DataFrame:
    """Return ``means``, one row per cell, with ``NAME_low`` and ``NAME_high`` of every measure in ``ranges``.

    Args:
        episodes: One row per episode: cell, scenario, sample_id and the measures; null where an episode has no value.
        ranges: Measure -> its range; None for a share, whose column is boolean and whose bounds are in percent.
    """
    rows = add_clusters(episodes.select("cell", "scenario", "sample_id", *ranges), run_data)
    bounds = [
        {"cell": cell} | {key: value for name in ranges for key, value in _bounds(name, part, ranges[name]).items()}
        for (cell,), part in rows.sort("cell").group_by("cell", maintain_order=True)
    ]
    names = [f"{name}_{end}" for name in ranges for end in ("low", "high")]
    schema = {"cell": pl.String, **dict.fromkeys(names, pl.Float64)}
    return means.join(pl.DataFrame(bounds, schema=schema), on="cell", how="left", maintain_order="left")


def _bounds(name: str, part: pl.DataFrame, limits: Range | None) -> dict[str, float]:
    """Return both bounds of one measure of a cell; empty without a value."""
    valued = part.drop_nulls(name)
    if valued.is_empty():
        return {}
    scale = 100 if limits is None else 1
    mean = estimate_mean(scale * valued[name].cast(pl.Float64).to_numpy(), cluster_numbers(valued), unit=scale)
    _, low, high = share_interval(mean, valued.height) if limits is None else t_interval(mean, *limits)
    return {f"{name}_low": low, f"{name}_high": high}


def average_bounds(rows: pl.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pl.DataFrame:
    """Return each group's mean over its rows with a value, with bounds as wide as those of the rows allow; null without any.

    Args:
        rows: One row per cell, with ``NAME``, ``NAME_low`` and ``NAME_high`` of every measure.
    """
    averages = []
    for group, part in rows.group_by(by, maintain_order=True):
        row = dict(zip(by, group, strict=True))
        for name in measures:
            columns = [f"{name}{end}" for end in ENDS]
            limits = part.select(columns).drop_nulls()
            if limits.height:
                row |= dict(zip(columns, combine_bounds(limits.rows()), strict=True))
        averages.append(row)
    ends = {f"{name}{end}": pl.Float64 for name in measures for end in ENDS}
    return pl.DataFrame(averages, schema={**{name: rows.schema[name] for name in by}, **ends})


def combine_bounds(parts: Sequence[tuple[float, ...]]) -> tuple[float, float, float]:
    """Return the average of independent estimates (value, low, high) with its interval (Zou and Donner 2008, MOVER)."""
    number = len(parts)
    value = sum(part[0] for part in parts) / number
    below = sum((part[0] - part[1]) ** 2 for part in parts) ** 0.5 / number
    above = sum((part[2] - part[0]) ** 2 for part in parts) ** 0.5 / number
    return value, value - below, value + above
