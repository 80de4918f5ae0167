"""Tables of open-ended answers as a judge read them.

Always with the judge's key and with the number of answers that have no verdict.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from orchestrator.report.bootstrap import GROUP, RESAMPLES, bounds, generator, resampled
from orchestrator.report.metrics import BITS, average, packages
from orchestrator.report.run_data import RunData

INTERVALS = [f"{bit}{end}" for bit in BITS for end in ("", "_low", "_high")]


def averages(run_data: RunData, resamples: int = RESAMPLES, seed: int = 0) -> pl.DataFrame:
    """One row model x condition x protocol ``oeg``: unweighted means over scenarios of each bit, with 95% intervals.

    Columns: model, condition, protocol; category, suggestion, aggregate in percent of the judged, each with ``_low``
    and ``_high`` (percentile bootstrap, each scenario a stratum); scenarios, complete, all_seven (``score.average``).
    """
    rows = run_data.rows.filter(pl.col("protocol") == "oeg")
    if rows.is_empty():
        return pl.DataFrame(schema={**dict.fromkeys(GROUP, pl.String), **dict.fromkeys(INTERVALS, pl.Float64)})
    drawn: dict[tuple[str, ...], list[Any]] = {}
    for (cell,), part in _bits(run_data).group_by(["cell"], maintain_order=True):
        values, counts = part.select(BITS).to_numpy(), part["count"].to_numpy()
        sums = resampled(values, counts, resamples, generator(seed, str(cell)))
        names = rows.row(by_predicate=pl.col("cell") == cell, named=True)
        drawn.setdefault(tuple(names[name] for name in GROUP), []).append(100 * sums / counts.sum())
    found = [dict(zip(GROUP, names, strict=True)) | _bounds(sum(cells) / len(cells)) for names, cells in drawn.items()]
    ends = [name for name in INTERVALS if name not in BITS]
    lows = pl.DataFrame(found, schema={**dict.fromkeys(GROUP, pl.String), **dict.fromkeys(ends, pl.Float64)})
    means = rows.group_by(GROUP).agg(pl.col(BITS).mean())
    whole = average(rows).drop("acc", "ps")
    return whole.join(means, on=list(GROUP), how="left").join(lows, on=list(GROUP), how="left").sort(GROUP)


def title(run_data: RunData) -> str:
    """What the open-ended table shows, by whom, and what it leaves out."""
    rows = run_data.rows.filter(pl.col("protocol") == "oeg")
    unjudged, answered = int(rows["unjudged"].sum()), int(rows["answered"].sum())
    unread = answered - unjudged - int(rows["judged"].sum())
    left = f"; {unread:,} of {answered:,} answers not read yet" if unread else ""
    counted = "counted as zeros (the package's way)" if run_data.strict else f"{unjudged:,} of {answered:,}, left out"
    return (
        f"open-ended: either / category / suggestion, percent of answers; judge {run_data.judge or 'nobody yet'};"
        f" without a verdict: {counted}{left}"
    )


def _bits(run_data: RunData) -> pl.DataFrame:
    """Each open-ended cell's distinct verdicts as 0 and 1 and how often they occur, in a fixed order."""
    cells = run_data.rows.filter(pl.col("protocol") == "oeg").select("cell")
    bits = run_data.verdicts.join(cells, on="cell", how="semi")
    if run_data.strict:
        bits = bits.with_columns(packages(bit) for bit in BITS)
    whole = bits.filter(pl.col("aggregate").is_not_null()).select("cell", *[pl.col(bit).cast(pl.Int64) for bit in BITS])
    return whole.group_by("cell", *BITS).len("count").with_columns(pl.col("count").cast(pl.Int64)).sort("cell", *BITS)


def _bounds(replicates: Any) -> dict[str, float]:
    """Intervals from replicates (resamples, bits)."""
    ends = [(bit, *bounds(replicates[:, place])) for place, bit in enumerate(BITS)]
    return {f"{bit}{end}": value for bit, low, high in ends for end, value in (("_low", low), ("_high", high))}
