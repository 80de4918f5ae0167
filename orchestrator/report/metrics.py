"""The measures of every cell: accuracy, ps, loops, shares of answers, the judge's bits; and averages over scenarios.

An error is never a zero: planned, finished and errors are columns of every row, and measures count answers alone.
Counts are summed as integers and divided once: equal episodes give equal bytes in any order, with any workers.
"""

from __future__ import annotations

import json
from collections.abc import Container
from pathlib import Path
from typing import Any

import polars as pl

from envs import SCENARIOS
from envs.types import CUT_SHORT, ERRORS, UNSCORED, Ending
from orchestrator.report.cell_resources import USED
from orchestrator.report.proportion import proportion_bounds
from orchestrator.storage import checksums
from orchestrator.storage.engine_cache import CACHED, cached
from orchestrator.storage.verdict_store import VERDICTS

PLANNED = ("model", "scenario", "condition", "protocol", "cell", "planned")
"""Columns of the table of planned cells."""
BITS = ("category", "suggestion", "aggregate")
"""What a judge says of an answer (protocol.md, last section)."""
READ = ("answered", "judged", "unjudged")
"""Counts of what a judge has read; 0 in a cell that is not open-ended."""
SHARES = {
    "share_suggestion": "suggestions",
    "share_abstention": "abstentions",
    "share_category": "categories",
    "share_unparsable": "unparsable",
}
"""Share -> the count it comes from (paper: action distributions)."""
CUT: dict[str, str] = dict(
    zip(CUT_SHORT, ("outgrew the model", "spent a reply's tokens before its first word"), strict=True)
)
"""Ending that a limit brought about, which is a column too -> what such episodes did, in words."""
NOT_COMPARABLE = ("prompt_tokens", "reply_tokens", "cost", *CACHED)
"""Columns that an engine may report differently for the same answers; they stay out of results.json."""
DIGITS = 6
"""Decimals in results.json."""


def score(
    episodes: pl.LazyFrame, planned: pl.DataFrame, verdicts: pl.LazyFrame | None = None, strict: bool = False
) -> pl.DataFrame:
    """One row a planned cell, sorted by cell.

    Counts of episodes: planned, finished (stored, whatever the ending), unprocessable, refused, failed, errors (their
    sum), scored (the rest), correct, correct_first (of these, at the first turn). Measures over the scored ones, null
    where there is none: acc, acc_low, acc_high (percent, 95% interval), acc_first (percent that end right at the first
    turn), ps (mean of turns - 1), loops (percent that ended at the turn limit), turns (in all), share_* (percent of
    turns), prompt_tokens, reply_tokens (sums), cost (of all episodes), and ``CACHED``. protocol.md, 'Measures'.

    Episodes that outgrew the model (``Ending.OVERFLOW``), or whose last reply's tokens were spent in silence (``TRUNCATED``),
    are scored, as not answered rightly: overflow and truncated count them, and acc_bound and loops_bound are what acc and
    loops would be if all of them had ended right, or at the turn limit; the true figure of a model without such limits
    lies between. Both equal the figure itself where nothing was cut short.

    Of a sweep that stops by precision also ``full``: the samples of the cell's whole set (``planned`` of them count).

    Where a cell is open-ended, more columns (``judged``), from one judge's ``verdicts``.
    """
    counted = episodes.group_by("cell").agg(_counts()).collect()
    sums = [name for name in counted.columns if name not in ("cell", *CACHED)]
    full = [name for name in planned.columns if name == "full"]
    rows = planned.select(*PLANNED, *full).join(counted, on="cell", how="left").with_columns(pl.col(sums).fill_null(0))
    rows = rows.with_columns(_measures()).select(*_columns(), *full).sort("cell")
    if "oeg" not in set(planned["protocol"]):
        return rows
    read = judged(episodes, pl.LazyFrame(schema=VERDICTS) if verdicts is None else verdicts, strict)
    return rows.join(read, on="cell", how="left").with_columns(pl.col(READ).fill_null(0)).sort("cell")


def judged(episodes: pl.LazyFrame, verdicts: pl.LazyFrame, strict: bool = False) -> pl.DataFrame:
    """One row a cell with open-ended answers: what one judge found in them.

    answered, judged (with a verdict), unjudged (read, but no verdict could be had: counted, never a zero), judge; and
    category, suggestion, aggregate in percent of the judged, with their 95% intervals. ``strict`` is the
    package's way for comparison: its own reading of the first reply, and three zeros where none came (``packages``).
    """
    mine = verdicts.select("key", "judge", "reason", *[packages(bit) if strict else pl.col(bit) for bit in BITS])
    answers = episodes.filter(pl.col("ending") == Ending.ANSWERED).select("key", "cell")
    rows = answers.join(mine, on="key", how="left").with_columns(pl.col("judge").is_not_null().alias("read"))
    counts = rows.group_by("cell").agg(
        pl.len().cast(pl.Int64).alias("answered"),
        pl.col("aggregate").count().cast(pl.Int64).alias("judged"),
        (pl.col("read") & pl.col("aggregate").is_null()).sum().cast(pl.Int64).alias("unjudged"),
        pl.col("judge").drop_nulls().first(),
        *[pl.col(bit).sum().cast(pl.Int64) for bit in BITS],
    )
    return counts.with_columns(e for bit in BITS for e in _interval(bit)).sort("cell").collect()


def packages(bit: str) -> pl.Expr:
    """The package's own bit of a verdict, never null; verdicts stored before it was kept count if the first was readable."""
    readable = pl.col(bit) & ~pl.col("first_failed")
    return pl.coalesce(f"strict_{bit}", readable, pl.lit(False)).alias(bit)


def _interval(bit: str) -> list[pl.Expr]:
    hits, n = pl.col(bit), pl.col("judged")
    low, high = _bounds(hits, n)
    return [_percent(hits, n).alias(bit), low.alias(f"{bit}_low"), high.alias(f"{bit}_high")]


def average(rows: pl.DataFrame) -> pl.DataFrame:
    """The paper's average: one row for model x condition x protocol, unweighted means of acc and ps over scenarios.

    ``scenarios`` counts those in the mean, ``complete`` those that are played to the end without a failed episode, and read;
    ``all_seven`` is true only when all seven of the benchmark are complete: a mean without it is not the paper's.
    """
    measured = [pl.col("acc"), *([pl.col("aggregate")] if "aggregate" in rows.columns else [])]
    done = (lacking(rows.columns) == 0) & pl.coalesce(measured).is_not_null()
    known = pl.col("scenario").is_in(list(SCENARIOS))
    means = (
        rows.sort("cell")
        .group_by("model", "condition", "protocol", maintain_order=True)
        .agg(
            pl.col("acc", "ps").mean(),
            pl.col("acc").count().cast(pl.Int64).alias("scenarios"),
            done.sum().cast(pl.Int64).alias("complete"),
            (pl.col("scenario").filter(done).n_unique().eq(len(SCENARIOS)) & known.all()).alias("all_seven"),
        )
    )
    return means.sort("model", "condition", "protocol")


def lacking(columns: Container[str]) -> pl.Expr:
    """Episodes that a cell has not got: not played, given up as failed, or, open-ended, not read by the judge yet."""
    missing = pl.col("planned") - pl.col("finished") + pl.col("failed")
    if "answered" not in columns:
        return missing
    return missing + (pl.col("answered") - pl.col("judged") - pl.col("unjudged")).fill_null(0)


def write_results(folder: Path, rows: pl.DataFrame) -> None:
    """``results.json`` (one row a cell, a line each: the same bytes for the same episodes) and ``results.parquet``."""
    comparable = rows.drop([*NOT_COMPARABLE, *USED], strict=False).sort("cell")
    lines = ",\n".join(json.dumps(_rounded(row), sort_keys=True, ensure_ascii=False) for row in comparable.to_dicts())
    checksums.write(folder / "results.json", f"[\n{lines}\n]\n".encode())
    checksums.write_table(folder / "results.parquet", rows)


def _counts() -> list[pl.Expr]:
    """Integer sums of a cell's episodes."""
    answered = ~pl.col("ending").is_in(UNSCORED)
    summed = ["turns", *SHARES.values(), "prompt_tokens", "reply_tokens"]
    return [
        pl.len().cast(pl.Int64).alias("finished"),
        answered.sum().cast(pl.Int64).alias("scored"),
        *[
            (pl.col("ending") == ending).sum().cast(pl.Int64).alias(ending)
            for ending in (*ERRORS, Ending.LIMIT, *CUT_SHORT)
        ],
        pl.col("correct").filter(answered).sum().cast(pl.Int64),
        (pl.col("correct") & (pl.col("turns") == 1)).filter(answered).sum().cast(pl.Int64).alias("correct_first"),
        *[pl.col(name).filter(answered).cast(pl.Int64).sum() for name in summed],
        pl.col("cost").sum().round(9),
        *cached(),
    ]


def _measures() -> list[pl.Expr]:
    low, high = _bounds(pl.col("correct"), pl.col("scored"))
    shares = [_percent(pl.col(count), pl.col("turns")).alias(share) for share, count in SHARES.items()]
    return [
        pl.sum_horizontal(ERRORS).alias("errors"),
        _percent(pl.col("correct"), pl.col("scored")).alias("acc"),
        low.alias("acc_low"),
        high.alias("acc_high"),
        _percent(pl.col("correct_first"), pl.col("scored")).alias("acc_first"),
        _ratio(pl.col("turns") - pl.col("scored"), pl.col("scored")).alias("ps"),
        _percent(pl.col(Ending.LIMIT), pl.col("scored")).alias("loops"),
        _percent(pl.sum_horizontal("correct", *CUT_SHORT), pl.col("scored")).alias("acc_bound"),
        _percent(pl.sum_horizontal(Ending.LIMIT, *CUT_SHORT), pl.col("scored")).alias("loops_bound"),
        *shares,
    ]


def _columns() -> list[str]:
    counts = ["finished", "scored", *ERRORS, "errors", "correct", "correct_first", *map(str, CUT_SHORT)]
    measures = ["acc", "acc_low", "acc_high", "acc_bound", "acc_first", "ps", "loops", "loops_bound"]
    return [*PLANNED, *counts, *measures, "turns", *SHARES, *NOT_COMPARABLE]


def _bounds(hits: pl.Expr, n: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The interval of ``hits`` out of ``n`` (``proportion_bounds``) in percent; null for n = 0."""
    low, high = (pl.when(n > 0).then(100 * bound) for bound in proportion_bounds(hits, n))
    return low.clip(0, 100), high.clip(0, 100)


def _ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part / whole)


def _percent(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(100 * part / whole)


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in row.items()}
