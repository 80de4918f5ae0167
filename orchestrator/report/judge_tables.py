"""Tables of open-ended answers as a judge read them.

Always with the judge's key and with the number of answers that have no verdict.
"""

from __future__ import annotations

import polars as pl

from orchestrator.report.estimates import GROUP
from orchestrator.report.intervals import histogram, score_interval
from orchestrator.report.metrics import BITS, average, packages
from orchestrator.report.outcomes import groups_of, with_clusters
from orchestrator.report.run_data import RunData

INTERVALS = [f"{bit}{end}" for bit in BITS for end in ("", "_low", "_high")]


def averages(run_data: RunData) -> pl.DataFrame:
    """One row model x condition x protocol ``oeg``: unweighted means over scenarios of each bit, with 95% intervals.

    Columns: model, condition, protocol; category, suggestion, aggregate in percent of the judged, each with ``_low``
    and ``_high`` (score interval, each scenario a stratum); scenarios, complete, all_seven (``score.average``).
    """
    rows = run_data.rows.filter(pl.col("protocol") == "oeg")
    if rows.is_empty():
        return pl.DataFrame(schema={**dict.fromkeys(GROUP, pl.String), **dict.fromkeys(INTERVALS, pl.Float64)})
    strata: dict[tuple[str, ...], list[pl.DataFrame]] = {}
    for (cell,), part in _bits(run_data).group_by(["cell"], maintain_order=True):
        names = rows.row(by_predicate=pl.col("cell") == cell, named=True)
        strata.setdefault(tuple(names[name] for name in GROUP), []).append(part)
    found = [dict(zip(GROUP, names, strict=True)) | _bounds(cells) for names, cells in strata.items()]
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
    """The verdicts of each open-ended cell in percent, 0 or 100, in a fixed order."""
    cells = run_data.rows.filter(pl.col("protocol") == "oeg").select("cell")
    bits = with_clusters(run_data.verdicts.join(cells, on="cell", how="semi"), run_data)
    if run_data.strict:
        bits = bits.with_columns(packages(bit) for bit in BITS)
    whole = bits.filter(pl.col("aggregate").is_not_null())
    return whole.select("cell", "cluster", *[pl.col(bit).cast(pl.Int64) * 100 for bit in BITS]).sort("cell", *BITS)


def _bounds(cells: list[pl.DataFrame]) -> dict[str, float]:
    """The interval of each bit's average over cells."""
    row: dict[str, float] = {}
    for bit in BITS:
        strata = [histogram(cell[bit].to_numpy(), 0, 100, groups_of(cell)) for cell in cells]
        row[f"{bit}_low"], row[f"{bit}_high"] = score_interval(strata)
    return row
