"""Cells that a precision rule stopped: their intervals, which are valid at any stop, and how many episodes were saved.

An interval for a fixed number of samples would be too narrow, because the number depends on the answers. These intervals
estimate the mean of the cell's full set of samples: all that the sweep would play without the rule.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import polars as pl

from envs.plural import pluralize
from envs.types import UNSCORED, Ending
from orchestrator.planning.plan import drawn_order
from orchestrator.precision.stopping import bounds
from orchestrator.report.scores.answer import GROUP
from sweeps.sections import Precision

MEASURES = {
    "acc": pl.col("correct").cast(pl.Float64),
    "acc_first": (pl.col("correct") & (pl.col("turns") == 1)).cast(pl.Float64),
    "loops": (pl.col("ending") == Ending.LIMIT).cast(pl.Float64),
}
"""Measure in percent -> the value of one episode, 0 or 1."""
Intervals = dict[str, tuple[float, float]]


def add_anytime_intervals(rows: pl.DataFrame, stored: pl.LazyFrame, rule: Precision | None, seed: int) -> pl.DataFrame:
    """Return the rows of ``score`` with anytime-valid acc_low and acc_high for stopped cells."""
    stopped = stopped_cells(rows)
    if rule is None or not stopped:
        return rows
    columns = ("cell", "scenario", "sample_id", "ending", "correct", "turns")
    episodes = stored.filter(pl.col("cell").is_in(list(stopped))).select(columns).collect()
    parts, intervals = episodes.partition_by("cell", as_dict=True), list[tuple[str, float, float]]()
    for row in rows.filter(pl.col("cell").is_in(episodes["cell"].implode())).iter_rows(named=True):
        cell, target = row["cell"], target_half_width(rule, rows, row)
        low, high = anytime_intervals([sort_by_draw(parts[cell,], seed)], [stopped[cell]], target)["acc"]
        acc = low if row["acc"] is None else row["acc"]  # earlier rounds may have rejected acc
        intervals.append((cell, min(low, acc), max(high, acc)))
    schema = {"cell": pl.String, "acc_low": pl.Float64, "acc_high": pl.Float64}
    return rows.update(pl.DataFrame(intervals, schema=schema, orient="row"), on="cell")


def stopped_cells(rows: pl.DataFrame) -> dict[str, int]:
    """Return the size of the full sample set of each stopped cell; empty without a rule."""
    if "full" not in rows.columns:
        return {}
    return dict(rows.filter(pl.col("planned") < pl.col("full")).select("cell", "full").iter_rows())


def target_half_width(rule: Precision, rows: pl.DataFrame, row: Mapping[str, Any]) -> float:
    """Return a cell's approximate half-width in points at a stop, computed from the rule alone."""
    points = rule.half_width if rule.half_width is not None else rule.difference
    assert points is not None, "a rule has one of the two"
    if rule.per == "cell":
        return points
    return points * sqrt(rows.filter([pl.col(name) == row[name] for name in GROUP]).height)


def sort_by_draw(episodes: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Return one cell's episodes in the order in which samples are drawn."""
    ids = tuple(episodes["sample_id"])
    ranks = drawn_order(seed, episodes["scenario"][0], ids) if ids else ()
    return episodes.with_columns(pl.Series("_rank", ranks, dtype=pl.Int64)).sort("_rank")


def anytime_intervals(
    parts: Sequence[pl.DataFrame], sizes: Sequence[int], points: float, most_suggestions: int = 0
) -> Intervals:
    """Return the interval of each measure, averaged over cells whose episodes are sorted by ``sort_by_draw``.

    ``sizes`` are those of the full sets, at least one. ``points`` is the approximate half-width at a stop. If cells stopped at
    different numbers of samples, the interval uses only that many first samples of each cell as the smallest of these numbers.
    An episode without a score may have any value. Bounds are in percent; those of ps are numbers of suggestions, at most
    ``most_suggestions``.
    """
    unfinished = [part.height for part, size in zip(parts, sizes, strict=True) if part.height < size]
    rounds = min(unfinished, default=max(sizes))
    scored = pl.when(~pl.col("ending").is_in(UNSCORED))
    scales = dict.fromkeys(MEASURES, 100.0) | ({"ps": float(most_suggestions)} if most_suggestions else {})
    bounds_by_measure: Intervals = {}
    for name, scale in scales.items():
        value = MEASURES[name] if name in MEASURES else (pl.col("turns") - 1).cast(pl.Float64) / most_suggestions
        # one array of values (samples,) per cell, NaN for an episode without a score
        strata = [part.select(scored.then(value).alias("value"))["value"].to_numpy() for part in parts]
        low, high = bounds(strata, sizes, rounds, points / 100)
        bounds_by_measure[name] = (scale * low, scale * high)
    return bounds_by_measure


def describe_stops(rule: Precision | None, planned: pl.DataFrame, unplanned: int) -> list[str]:
    """Return sentences on cells that stopped by precision, and on stored episodes outside the plan."""
    notes = [rule.describe_savings(planned.to_dicts())] if rule else []
    if stopped := stopped_cells(planned):
        notes.append(
            f"intervals of accuracy, suggestions and loops of {pluralize(len(stopped), 'stopped cell')} hold at any stop, for the"
            " whole set of samples; those of shares of answers, of budgets and of paired tests assume a fixed number of samples"
        )
    if unplanned:
        after = "after a stop or " if stopped else ""
        notes.append(f"left out: {pluralize(unplanned, 'episode')} {after}of an earlier configuration")
    return notes
