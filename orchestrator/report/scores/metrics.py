"""The measures of every cell: accuracy, ps, loops, shares of answers, the judge's bits; and averages over scenarios.

An error never counts as zero: every row has the columns planned, finished and errors, and measures count answers only.
Counts are summed as integers and divided once, so equal episodes give equal bytes in any order.
"""

import json
from collections.abc import Collection, Container, Iterator, Sequence
from pathlib import Path

import polars as pl

from envs import SCENARIOS
from envs.samples import paper_ids
from envs.types import CUT_SHORT, ERRORS, UNSCORED, Ending
from orchestrator.report.scores.answer import ANSWERS, GROUP, IF_ASKED, answer_columns, answer_counts
from orchestrator.report.scores.cell_resources import RESOURCE_COLUMNS
from orchestrator.report.statistics.proportion import percentage, share_columns
from orchestrator.storage import checksums
from orchestrator.storage.schemas import EPISODES, VERDICTS, ColumnDoc
from sweeps.packages import RESULT_COLUMNS, with_bounds
from sweeps.protocol import ZERO_SHOT

CACHED = {"prompt_cached": ("prompt_tokens", "cached_tokens"), "pictures_cached": ("pictures", "cached_pictures")}
"""Name -> the columns of ``EpisodeRow`` with the total and with the cached part of it."""
PLANNED_COLUMNS = ("model", "scenario", "condition", "protocol", "cell", "planned")
"""Columns of the table of planned cells."""
BITS = ("category", "suggestion", "aggregate")
"""Bits of a judge's verdict (protocol.md, last section)."""
JUDGE_COUNTS = ("answered", "judged", "unjudged", "judge_calls")
"""Counts of judged answers; 0 in a cell that is not open-ended."""
ACTION_SHARES = {"share_suggestion": "suggestions", "share_abstention": "abstentions", "share_category": "categories"}
SHARES = {**ACTION_SHARES, "share_unparsable": "unparsable"}
"""Share of turns -> the column that it sums (the paper's action distributions)."""
CUT_SHORT_REASONS: dict[str, str] = {
    Ending.OVERFLOW: "outgrew the model", Ending.TRUNCATED: "spent a reply's tokens before its first word",
    Ending.THOUGHTS_CUT: "ended in thoughts without an answer",
}  # fmt: skip
"""Ending caused by a limit (also the column that counts it) -> what such an episode did, in words."""
NOT_COMPARABLE = ("prompt_tokens", "reply_tokens", "cost", *CACHED)
"""Columns that may differ between engines for the same answers; results.json leaves them out."""
DIGITS = 6
"""Decimals in results.json."""
ANSWER_COLUMNS = with_bounds((*ANSWERS, *IF_ASKED))
"""The last columns of results: whether the model asks, and what becomes of it (``scores.answer``)."""


def score(
    episodes: pl.LazyFrame | Sequence[pl.LazyFrame], planned: pl.DataFrame, verdicts: pl.LazyFrame | None = None,
    strict: bool = False, reference: Collection[str] = ("reference",),
) -> pl.DataFrame:  # fmt: skip
    """Return one row per planned cell, sorted by cell, with the columns of ``result_columns.toml`` (protocol.md, 'Measures').

    Measures are over the scored episodes, null if there are none. Episodes that a limit cut short (``CUT_SHORT``) are scored as
    wrong; acc_bound and loops_bound are acc and loops if all of them had ended right, or at the turn limit. Without such
    limits, the model's value would lie in between. Shares of asking are null under the ``reference`` conditions.
    Scans of several models' ``episodes`` are counted one after the other, which bounds memory.
    A sweep that stops by precision also has ``full``, the number of samples of the cell's full set. If a cell is
    open-ended, the columns of ``judge_measures`` are added, from one judge's ``verdicts``.
    """
    scans = [episodes] if isinstance(episodes, pl.LazyFrame) else episodes
    counts = pl.concat(scan.group_by("cell").agg(_count_columns()).collect() for scan in scans)
    sums = [name for name in counts.columns if name not in ("cell", *CACHED)]
    rows = planned.join(counts, on="cell", how="left").with_columns(pl.col(sums).fill_null(0))
    rows = rows.with_columns(*_measure_columns(), *answer_columns(reference)).sort("cell")
    rows = rows.select(name for name in with_bounds(RESULT_COLUMNS) if name in rows.columns)
    if "oeg" not in set(planned["protocol"]):
        return rows
    judged = judge_measures(pl.concat(scans), pl.LazyFrame(schema=VERDICTS) if verdicts is None else verdicts, strict)
    return rows.join(judged, on="cell", how="left").with_columns(pl.col(JUDGE_COUNTS).fill_null(0)).sort("cell")


def judge_measures(episodes: pl.LazyFrame, verdicts: pl.LazyFrame, strict: bool = False) -> pl.DataFrame:
    """Return one row per cell with open-ended answers, from one judge's verdicts.

    ``strict`` scores as the package does: by its parsing of the first reply, and three zeros without a verdict (``verdict_bit``).
    """
    bits = verdicts.select("key", "judge", "reason", "attempts", *[verdict_bit(bit, strict) for bit in BITS])
    answers = episodes.filter(pl.col("ending") == Ending.ANSWERED).select("key", "cell")
    rows = answers.join(bits, on="key", how="left").with_columns(pl.col("judge").is_not_null().alias("read"))
    unread = pl.col("read") & pl.col("aggregate").is_null()
    counts = rows.group_by("cell").agg(
        answered=pl.len(), judged=pl.col("aggregate").count(), unjudged=unread.sum(),
        judge_calls=pl.col("attempts").sum(), judge=pl.col("judge").drop_nulls().first(),
        **{bit: pl.col(bit).sum() for bit in BITS},
    ).cast({pl.UInt32: pl.Int64, pl.Int32: pl.Int64})  # fmt: skip
    shares = (column for bit in BITS for column in share_columns(bit, pl.col(bit), pl.col("judged")))
    return counts.with_columns(shares).sort("cell").collect()


def verdict_bit(bit: str, strict: bool) -> pl.Expr:
    """Return a bit of a verdict; if ``strict``, the bit as the package scores it, which is never null.

    An older verdict, stored without that bit, counts if the judge's first reply was readable.
    """
    if not strict:
        return pl.col(bit)
    readable = pl.col(bit) & ~pl.col("first_failed")
    return pl.coalesce(f"strict_{bit}", readable, pl.lit(False)).alias(bit)


def average_over_scenarios(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the paper's average: one row per model x condition x protocol, unweighted means of acc and ps over scenarios.

    ``scenarios`` counts the scenarios in the mean, ``complete`` those without missing episodes. ``all_seven`` is true only if
    all seven scenarios of the benchmark are complete; otherwise the mean is not comparable with the paper's.
    """
    measured = [pl.col("acc"), *([pl.col("aggregate")] if "aggregate" in rows.columns else [])]
    complete = (missing_episodes(rows.columns) == 0) & pl.coalesce(measured).is_not_null()
    defined = pl.col("scenario").is_in(list(SCENARIOS))
    means = rows.sort("cell").group_by(GROUP, maintain_order=True).agg(
        pl.col("acc", "ps").mean(), scenarios=pl.col("acc").count(), complete=complete.sum(),
        all_seven=pl.col("scenario").filter(complete).n_unique().eq(len(SCENARIOS)) & defined.all(),
    ).cast({pl.UInt32: pl.Int64})  # fmt: skip
    return means.sort(GROUP)


def missing_episodes(columns: Container[str]) -> pl.Expr:
    """Return the number of a cell's missing episodes: not played, failed, or, if open-ended, not judged yet."""
    missing = pl.col("planned") - pl.col("finished") + pl.col("failed")
    if "answered" not in columns:
        return missing
    return missing + (pl.col("answered") - pl.col("judged") - pl.col("unjudged")).fill_null(0)


def result_docs() -> Iterator[ColumnDoc]:
    """Yield the columns of ``results.parquet`` with their meanings."""
    planned = pl.DataFrame([("oeg",) * 5 + (0,)], schema=PLANNED_COLUMNS, orient="row")
    rows = score(pl.LazyFrame(schema=EPISODES), planned).with_columns(gpu_hours=pl.lit(None, pl.Float64))
    ends = {"_low": ", lower end of the interval", "_high": ", upper end of the interval"}
    for name, kind in move_answers_last(rows).schema.items():
        end = next((end for end in ends if name.endswith(end)), "")
        meaning = RESULT_COLUMNS[name.removesuffix(end)] + ends.get(end, "")
        yield ColumnDoc(name, str(kind), kind.is_float() or name == "judge", (), meaning)


def is_headline(rows: pl.DataFrame) -> bool:
    """Return True if rows of cells are those of ``HEADLINE``: zero-shot multiple choice on all samples that the filter keeps."""
    if set(rows.select("condition", "protocol").iter_rows()) != {(ZERO_SHOT, "mcqa")}:
        return False
    sizes = set(rows.select("scenario", "planned").iter_rows())
    return sizes == {(scenario, len(ids)) for scenario, ids in paper_ids().items()}


def write_results(folder: Path, rows: pl.DataFrame) -> None:
    """Write ``results.json`` (one cell per line, equal bytes for equal episodes) and ``results.parquet``."""
    comparable = rows.drop([*NOT_COMPARABLE, *RESOURCE_COLUMNS], strict=False).sort("cell")
    rounded = [
        {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in row.items()}
        for row in comparable.to_dicts()
    ]
    lines = ",\n".join(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rounded)
    checksums.write(folder / "results.json", f"[\n{lines}\n]\n".encode())
    checksums.write(folder / "results.parquet", move_answers_last(rows))


def move_answers_last(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with ``ANSWER_COLUMNS`` after those that older versions wrote."""
    last = [name for name in ANSWER_COLUMNS if name in rows.columns]
    return rows.select(pl.exclude(last), *last)


def _count_columns() -> list[pl.Expr]:
    correct = pl.col("correct")
    answered = ~pl.col("ending").is_in(UNSCORED) & correct.is_not_null()
    summed = ["turns", *SHARES.values(), "prompt_tokens", "reply_tokens"]
    endings: dict[str, pl.Expr] = {ending: pl.col("ending") == ending for ending in (*ERRORS, Ending.LIMIT, *CUT_SHORT)}
    right = {"correct": correct & answered, "correct_first": correct & (pl.col("turns") == 1) & answered}
    return [
        pl.len().cast(pl.Int64).alias("finished"),
        *[kind.sum().cast(pl.Int64).alias(name) for name, kind in {"scored": answered, **endings, **right}.items()],
        *[pl.col(name).filter(answered).cast(pl.Int64).sum() for name in summed],
        pl.col("cost").sum().round(9),
        *cached_percentages(),
        *answer_counts(answered),
    ]


def _measure_columns() -> list[pl.Expr]:
    return [
        pl.sum_horizontal(ERRORS).alias("errors"),
        *share_columns("acc", pl.col("correct"), pl.col("scored")),
        percentage(pl.col("correct_first"), pl.col("scored")).alias("acc_first"),
        pl.when(pl.col("scored") > 0).then((pl.col("turns") - pl.col("scored")) / pl.col("scored")).alias("ps"),
        percentage(pl.col(Ending.LIMIT), pl.col("scored")).alias("loops"),
        percentage(pl.sum_horizontal("correct", *CUT_SHORT), pl.col("scored")).alias("acc_bound"),
        percentage(pl.sum_horizontal(Ending.LIMIT, *CUT_SHORT), pl.col("scored")).alias("loops_bound"),
        *(percentage(pl.col(count), pl.col("turns")).alias(share) for share, count in SHARES.items()),
    ]


def cached_percentages() -> list[pl.Expr]:
    """Return expressions for ``CACHED`` of a group of episodes, of those that report them (vLLM, some bills)."""
    return [
        percentage(pl.col(cached).sum(), pl.col(total).filter(pl.col(cached).is_not_null()).sum()).alias(name)
        for name, (total, cached) in CACHED.items()
    ]
