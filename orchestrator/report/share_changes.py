"""How hints and random suggestions change what models do: suggestion, abstention, category, against zero-shot.

Over the scenarios that are complete under both conditions, unweighted; what was not played changes nothing and is left out.

Source: the paper's figures of the three shares under hints and under random suggestions. Of them only the
changes of suggestions under random ones are published as numbers (published_tables/random_suggestions.csv), in percent of the
share before; over which answers the paper takes its shares is not said.
"""

from __future__ import annotations

import polars as pl

from orchestrator.report.estimates import Estimates, estimate
from orchestrator.report.metrics import lacking
from orchestrator.report.provenance import foreign, subset
from orchestrator.report.published import table
from orchestrator.report.run_data import RunData, once

ZERO_SHOT, PUBLISHED = "zero-shot", "random-proactive"
CONDITIONS = ("hint", PUBLISHED)
SHARES = ("share_suggestion", "share_abstention", "share_category")
PAIR = ["model", "scenario"]


@once
def share_changes(run_data: RunData) -> pl.DataFrame:
    """One row model x condition x share: scenarios, before, after (percent of answers), points, percent, published, difference.

    ``percent`` is the change relative to ``before``, null where that is 0. ``published`` is the paper's, where the run is of its
    samples, whole, in all seven scenarios; ``difference`` is ours less it.
    """
    cells = _complete(run_data, estimate(run_data))
    first = cells.filter(condition=ZERO_SHOT).select(*PAIR, *SHARES)
    both = cells.filter(pl.col("condition").is_in(CONDITIONS)).join(first, on=PAIR, suffix="_before")
    means = both.group_by("model", "condition").agg(
        pl.len().cast(pl.Int64).alias("scenarios"),
        *[pl.col(name).mean() for share in SHARES for name in (share, f"{share}_before")],
    )
    frames = [
        means.select(
            "model", "condition", pl.lit(share).alias("share"), "scenarios",
            pl.col(f"{share}_before").alias("before"), pl.col(share).alias("after"),
        )
        for share in SHARES
    ]  # fmt: skip
    points = pl.col("after") - pl.col("before")
    rows = pl.concat(frames).with_columns(
        points.alias("points"), pl.when(pl.col("before") > 0).then(100 * points / pl.col("before")).alias("percent")
    )
    rows = rows.join(_published(run_data), on=["model", "condition", "share", "scenarios"], how="left")
    return rows.with_columns((pl.col("percent") - pl.col("published")).alias("difference")).sort(
        "condition", "model", "share"
    )


def _complete(run_data: RunData, intervals: Estimates) -> pl.DataFrame:
    """The cells of multiple choice that are played to the end."""
    whole = run_data.rows.filter(lacking(run_data.rows.columns) == 0).select("cell")
    cells = intervals.cells.filter(protocol="mcqa").join(whole, on="cell", how="semi")
    return cells.filter(pl.col(SHARES[0]).is_not_null()).sort("cell")


def _published(run_data: RunData) -> pl.DataFrame:
    """The paper's changes by our models' names; none where the run is of other samples."""
    known = dict(table("random_suggestions").iter_rows())
    ours = {} if foreign(run_data) or subset(run_data) else {m.name: known.get(m.paper) for m in run_data.sweep.models}
    rows = [(name, PUBLISHED, SHARES[0], 7, float(value)) for name, value in ours.items() if value is not None]
    names = dict.fromkeys(("model", "condition", "share"), pl.String)
    return pl.DataFrame(rows, schema={**names, "scenarios": pl.Int64, "published": pl.Float64}, orient="row")
