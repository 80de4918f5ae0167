"""Cells that stopped by precision: their intervals, which hold at any stop, and what the rule has saved, in words.

An interval of a fixed number of samples would be too narrow there: how many there are was chosen by looking at them. These
are of the cell's whole set of samples, all that the sweep would play without the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import polars as pl

from envs.types import UNSCORED, Ending
from orchestrator.planning.plan import drawn_order
from orchestrator.precision.reckoned import reckoned
from orchestrator.precision.stopping import bounds
from orchestrator.report.wording import counted
from sweeps.precision import Precision
from sweeps.spec import Cell

MEASURES = {
    "acc": pl.col("correct").cast(pl.Float64),
    "acc_first": (pl.col("correct") & (pl.col("turns") == 1)).cast(pl.Float64),
    "loops": (pl.col("ending") == Ending.LIMIT).cast(pl.Float64),
}
"""Measures in percent -> what an episode adds, 0 or 1."""
SHARES = (0.1, 0.25, 0.5)
"""Accuracies for which a plan reckons; at 50% most is played."""
COLUMNS = ("cell", "scenario", "sample_id", "ending", "correct", "turns")
GROUP = ("model", "condition", "protocol")
Intervals = dict[str, tuple[float, float]]


def with_anytime(rows: pl.DataFrame, episodes: pl.LazyFrame, rule: Precision | None, seed: int) -> pl.DataFrame:
    """``score``'s rows with acc_low and acc_high of stopped cells as they hold at any stop."""
    stopped = stopped_cells(rows)
    if rule is None or not stopped:
        return rows
    targets = {row["cell"]: target(rule, rows, row) for row in rows.iter_rows(named=True)}
    mine = episodes.filter(pl.col("cell").is_in(list(stopped))).select(COLUMNS).collect()
    found = [
        (str(cell), *intervals([in_order(part, seed)], [stopped[str(cell)]], targets[str(cell)])["acc"])
        for (cell,), part in mine.group_by(["cell"])
    ]
    new = pl.DataFrame(found, schema={"cell": pl.String, "_low": pl.Float64, "_high": pl.Float64}, orient="row")
    bounded = rows.join(new, on="cell", how="left", maintain_order="left")
    low, high = pl.min_horizontal("_low", "acc"), pl.max_horizontal("_high", "acc")
    known = pl.col("_low").is_not_null()
    ends = {"acc_low": pl.when(known).then(low), "acc_high": pl.when(known).then(high)}
    new_ends = [end.otherwise(pl.col(name)).alias(name) for name, end in ends.items()]
    return bounded.with_columns(new_ends).drop("_low", "_high")


def stopped_cells(rows: pl.DataFrame) -> dict[str, int]:
    """Stopped cell -> the samples of its whole set; of a run without a rule none."""
    if "full" not in rows.columns:
        return {}
    return dict(rows.filter(pl.col("planned") < pl.col("full")).select("cell", "full").iter_rows())


def target(rule: Precision, rows: pl.DataFrame, row: Mapping[str, Any]) -> float:
    """The half-width, in points, that a cell has about when the rule stops it; known before anything is played."""
    points = rule.half_width if rule.half_width is not None else rule.difference
    assert points is not None, "a rule gives one of the two"
    if rule.per == "cell":
        return points
    return points * sqrt(rows.filter([pl.col(name) == row[name] for name in GROUP]).height)


def in_order(episodes: pl.DataFrame, seed: int) -> pl.DataFrame:
    """One cell's episodes in the drawn order."""
    ids = episodes["sample_id"].to_list()
    ranks = drawn_order(seed, episodes["scenario"][0], ids) if ids else ()
    return episodes.with_columns(pl.Series("_rank", ranks, dtype=pl.Int64)).sort("_rank")


def intervals(parts: Sequence[pl.DataFrame], sizes: Sequence[int], points: float, most: int = 0) -> Intervals:
    """Measure -> its interval, of the average over cells whose episodes stand ``in_order``; ``sizes`` are of the whole sets.

    In percent, but for ps, the mean number of suggestions of at most ``most``. ``points``: the half-width at a stop, about.
    Cells that stopped at different places count up to the first of them.
    """
    unfinished = [part.height for part, size in zip(parts, sizes, strict=True) if part.height < size]
    rounds = min(unfinished, default=max(sizes))
    scored = pl.when(~pl.col("ending").is_in(UNSCORED))
    scales = dict.fromkeys(MEASURES, 100.0) | ({"ps": float(most)} if most else {})
    found: Intervals = {}
    for name, scale in scales.items():
        value = MEASURES[name] if name in MEASURES else (pl.col("turns") - 1).cast(pl.Float64) / most
        strata = [part.select(scored.then(value).alias("value"))["value"].to_numpy() for part in parts]
        low, high = bounds(strata, sizes, rounds, points / 100)
        found[name] = (scale * low, scale * high)
    return found


def ahead(rule: Precision | None, cells: Sequence[Cell], sizes: Sequence[int]) -> list[str]:
    """What the rule would leave to play of cells with so many samples, one sentence; none without a rule."""
    if rule is None:
        return []
    counts = {share: sum(reckoned(rule, cells, sizes, share)) for share in SHARES}
    parts = [
        f"{count:,} ({count / max(sum(sizes), 1):.0%}) where accuracies are {s:.0%}" for s, count in counts.items()
    ]
    return [
        f"precision, reckoned with planted answers: of {counted(sum(sizes), 'episode')} are played {', '.join(parts)}"
    ]


def told(rule: Precision | None, cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rule and what it has saved, one sentence; none without a rule. Of each cell: planned, full."""
    if rule is None:
        return []
    whole = sum(cell.get("full", cell["planned"]) for cell in cells)
    saved = whole - sum(cell["planned"] for cell in cells)
    stopped = sum(cell["planned"] < cell.get("full", 0) for cell in cells)
    number = f"{stopped:,} of {counted(len(cells), 'cell')} stopped"
    return [f"precision {rule.told}: {number}, {saved:,} of {counted(whole, 'episode')} not needed"]
