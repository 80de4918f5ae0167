"""Intervals of means over episodes that ``estimates`` does not have: of efficiency, endings, readings and decisions.

They are computed as in ``estimates``: over samples, or over their clusters if the run data has them.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from orchestrator.report.measures.estimates import proportion
from orchestrator.report.measures.outcomes import add_clusters, cluster_numbers
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.intervals import Integers, combine_intervals, score_interval, stratum_from_values

STEPS = 1_000
"""Values are rounded to a thousandth, because the score interval needs integers."""
Range = tuple[float, float]
"""Least and greatest possible value."""


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
    groups = cluster_numbers(valued)
    if limits is None:
        hits = 100 * valued[name].cast(pl.Int64).to_numpy()
        _, low, high = proportion(stratum_from_values(hits, 0, 100, groups))
    else:
        low, high = mean_interval(valued[name], limits, groups)
    return {f"{name}_low": low, f"{name}_high": high}


def mean_interval(values: pl.Series, limits: Range, groups: Integers | None = None) -> tuple[float, float]:
    """Return the interval of the mean of values (n,) within ``limits``; ``groups`` (n,) are their clusters."""
    steps = (STEPS * values).round().cast(pl.Int64).to_numpy()
    stratum = stratum_from_values(steps, STEPS * limits[0], STEPS * limits[1], groups)
    low, high = score_interval([stratum])
    return low / STEPS, high / STEPS


def average_bounds(rows: pl.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pl.DataFrame:
    """Return each group's mean over its rows with a value, with bounds (``combine_intervals``); null if no row has one.

    Args:
        rows: One row per cell, with ``NAME``, ``NAME_low`` and ``NAME_high`` of every measure.
    """
    averages = []
    for group, part in rows.group_by(by, maintain_order=True):
        row = dict(zip(by, group, strict=True))
        for name in measures:
            columns = [name, f"{name}_low", f"{name}_high"]
            limits = part.select(columns).drop_nulls()
            if limits.height:
                values = (limits[name].mean(), *combine_intervals(limits.rows()))
                row |= dict(zip(columns, values, strict=True))
        averages.append(row)
    ends = {f"{name}{end}": pl.Float64 for name in measures for end in ("", "_low", "_high")}
    return pl.DataFrame(averages, schema={**{name: rows.schema[name] for name in by}, **ends})
