"""How hints and random suggestions change what models do: suggestion, abstention, category, against zero-shot.

Over the scenarios that are complete under both conditions, unweighted; what was not played changes nothing and is left out.
Intervals are paired (``orchestrator.report.paired_shares``), with scenarios as strata.

Source: the paper's figures of the three shares under hints and under random suggestions. Of them only the
changes of suggestions under random ones are published as numbers (published_tables/random_suggestions.csv), in percent of the
share before; over which answers the paper takes its shares is not said.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from orchestrator.report.estimates import SHARES as SHARES_OF_ANSWERS
from orchestrator.report.estimates import Estimate, Estimates, estimate
from orchestrator.report.intervals import Whole, combined
from orchestrator.report.metrics import lacking
from orchestrator.report.outcomes import with_clusters
from orchestrator.report.paired_shares import change_interval, correlation
from orchestrator.report.provenance import foreign, subset
from orchestrator.report.published import table
from orchestrator.report.run_data import RunData, once

ZERO_SHOT, PUBLISHED = "zero-shot", "random-proactive"
CONDITIONS = ("hint", PUBLISHED)
COUNTS = {name: SHARES_OF_ANSWERS[name] for name in ("share_suggestion", "share_abstention", "share_category")}
"""Share -> the count of an episode that it sums."""
SHARES = tuple(COUNTS)
ENDS = ("", "_low", "_high")
PAIR = ["model", "scenario"]
UNIT = "unit"
"""What is paired: a sample, or a cluster of them."""


@once
def share_changes(run_data: RunData) -> pl.DataFrame:
    """One row model x condition x share: scenarios, before, after (percent of answers), points, percent, published, difference.

    ``points`` has its 95% interval (points_low, points_high). ``percent`` is the change relative to ``before``, null where that
    is 0. ``published`` is the paper's, where the run is of its samples, whole, in all seven scenarios; ``difference`` is ours
    less it.
    """
    cells = _complete(run_data, estimate(run_data))
    first = cells.filter(condition=ZERO_SHOT)
    both = cells.filter(pl.col("condition").is_in(CONDITIONS)).join(first, on=PAIR, suffix="_before")
    answers = _answers(run_data)
    rows = [
        (model, condition, share, *_averaged(group, share, answers))
        for (model, condition), group in both.group_by("model", "condition", maintain_order=True)
        for share in SHARES
    ]
    measured = dict.fromkeys(("before", "after", "points", "points_low", "points_high"), pl.Float64)
    schema = {**dict.fromkeys(("model", "condition", "share"), pl.String), "scenarios": pl.Int64, **measured}
    found = pl.DataFrame(rows, schema=schema, orient="row")
    found = found.with_columns(
        pl.when(pl.col("before") > 0).then(100 * pl.col("points") / pl.col("before")).alias("percent")
    )
    found = found.join(_published(run_data), on=["model", "condition", "share", "scenarios"], how="left")
    return found.with_columns((pl.col("percent") - pl.col("published")).alias("difference")).sort(
        "condition", "model", "share"
    )


def _averaged(group: pl.DataFrame, share: str, answers: Mapping[str, pl.DataFrame]) -> tuple[float, ...]:
    """Scenarios, both means, and the mean change with its interval, of one model's cells under a condition."""
    parts = list[Estimate]()
    for row in group.iter_rows(named=True):
        before, after = (tuple(row[f"{share}{end}{which}"] for end in ENDS) for which in ("_before", ""))
        pairs = answers[row["cell_before"]].join(answers[row["cell"]], on=UNIT, suffix="_after", maintain_order="left")
        alike = correlation(_counted(pairs, share, ""), _counted(pairs, share, "_after"))
        parts.append((after[0] - before[0], *change_interval(before, after, alike)))
    means = [float(group[f"{share}{which}"].mean()) for which in ("_before", "")]  # type: ignore[arg-type]
    return group.height, *means, means[1] - means[0], *combined(parts)


def _answers(run_data: RunData) -> dict[str, pl.DataFrame]:
    """Answers of each kind and all of them, by cell: one row a sample, or a cluster where intervals count with these.

    Sorted, for sums of floats depend on their order.
    """
    rows = with_clusters(run_data.scored, run_data)
    unit = pl.coalesce(pl.col("cluster").cast(pl.String), pl.col("sample_id").cast(pl.String)).alias(UNIT)
    counts = rows.group_by("cell", unit).agg(pl.col(*COUNTS.values(), "turns").cast(pl.Int64).sum()).sort("cell", UNIT)
    return {str(cell): part for (cell,), part in counts.group_by("cell")}


def _counted(pairs: pl.DataFrame, share: str, which: str) -> tuple[Whole, Whole]:
    return pairs[f"{COUNTS[share]}{which}"].to_numpy(), pairs[f"turns{which}"].to_numpy()


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
