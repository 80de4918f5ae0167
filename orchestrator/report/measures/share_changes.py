"""Changes of the shares of suggestions, abstentions and categories under hints and random suggestions, against zero-shot.

Means are unweighted over the scenarios that are complete under both conditions. Intervals are paired (``change_interval``),
with scenarios as strata. The paper publishes numbers only for the share of suggestions under random suggestions
(published_tables/random_suggestions.csv): its change in percent of the share before. It does not say over which answers.
"""

from collections.abc import Mapping

import polars as pl

from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.outcomes import add_clusters
from orchestrator.report.paper.published import foreign_scenarios, published_table, subset_scenarios
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import ACTION_SHARES, missing_episodes
from orchestrator.report.statistics.intervals import Estimate, Integers, change_interval, combine_intervals, correlation
from sweeps.protocol import ZERO_SHOT

PUBLISHED = "random-proactive"
CHANGED_CONDITIONS = ("hint", PUBLISHED)
SHARES = tuple(ACTION_SHARES)
ENDS = ("", "_low", "_high")
PAIR = ["model", "scenario"]
UNIT = "unit"
"""The paired unit: a sample, or a cluster of samples."""


@cached_per_run
def share_changes(run_data: RunData) -> pl.DataFrame:
    """Return one row per model x condition x share.

    Columns: scenarios; before, after (percent of answers); points with points_low and points_high (95%); percent (relative to
    ``before``, null if that is 0); published (the paper's, if the run has all its samples); difference (ours minus published).
    """
    cells = _complete_cells(run_data)
    base = cells.filter(condition=ZERO_SHOT)
    pairs = cells.filter(pl.col("condition").is_in(CHANGED_CONDITIONS)).join(base, on=PAIR, suffix="_before")
    answers = _answer_counts(run_data)
    rows = [
        (model, condition, share, *_average_change(group, share, answers))
        for (model, condition), group in pairs.group_by("model", "condition", maintain_order=True)
        for share in SHARES
    ]
    measured = dict.fromkeys(("before", "after", "points", "points_low", "points_high"), pl.Float64)
    schema = {**dict.fromkeys(("model", "condition", "share"), pl.String), "scenarios": pl.Int64, **measured}
    changes = pl.DataFrame(rows, schema=schema, orient="row")
    changes = changes.with_columns(
        pl.when(pl.col("before") > 0).then(100 * pl.col("points") / pl.col("before")).alias("percent")
    )
    changes = changes.join(_published_changes(run_data), on=["model", "condition", "share", "scenarios"], how="left")
    return changes.with_columns((pl.col("percent") - pl.col("published")).alias("difference")).sort(
        "condition", "model", "share"
    )


def _average_change(group: pl.DataFrame, share: str, answers: Mapping[str, pl.DataFrame]) -> tuple[float, ...]:
    """Return the columns from scenarios to points_high, for one share of one model under a condition."""
    parts = list[Estimate]()
    for row in group.iter_rows(named=True):
        before, after = (tuple(row[f"{share}{end}{suffix}"] for end in ENDS) for suffix in ("_before", ""))
        pairs = answers[row["cell_before"]].join(answers[row["cell"]], on=UNIT, suffix="_after", maintain_order="left")
        rho = correlation(_share_counts(pairs, share, ""), _share_counts(pairs, share, "_after"))
        parts.append((after[0] - before[0], *change_interval(before, after, rho)))
    means = [float(group[f"{share}{suffix}"].mean()) for suffix in ("_before", "")]  # type: ignore[arg-type]
    return group.height, *means, means[1] - means[0], *combine_intervals(parts)


def _answer_counts(run_data: RunData) -> dict[str, pl.DataFrame]:
    """Return counts of answers by cell, one row per sample or cluster, sorted: sums of floats depend on their order."""
    rows = add_clusters(run_data.scored, run_data)
    unit = pl.coalesce(pl.col("cluster").cast(pl.String), pl.col("sample_id").cast(pl.String)).alias(UNIT)
    counts = (
        rows.group_by("cell", unit)
        .agg(pl.col(*ACTION_SHARES.values(), "turns").cast(pl.Int64).sum())
        .sort("cell", UNIT)
    )
    return {str(cell): part for (cell,), part in counts.group_by("cell")}


def _share_counts(pairs: pl.DataFrame, share: str, suffix: str) -> tuple[Integers, Integers]:
    return pairs[f"{ACTION_SHARES[share]}{suffix}"].to_numpy(), pairs[f"turns{suffix}"].to_numpy()


def _complete_cells(run_data: RunData) -> pl.DataFrame:
    """Return the complete cells of multiple choice."""
    complete = run_data.rows.filter(missing_episodes(run_data.rows.columns) == 0).select("cell")
    cells = estimate(run_data).cells.filter(protocol="mcqa").join(complete, on="cell", how="semi")
    return cells.filter(pl.col(SHARES[0]).is_not_null()).sort("cell")


def _published_changes(run_data: RunData) -> pl.DataFrame:
    """Return the paper's changes under the names of our models; no rows if the run has other samples."""
    published = dict(published_table("random_suggestions").iter_rows())
    differs = foreign_scenarios(run_data) or subset_scenarios(run_data)
    models = [] if differs else [model for model in run_data.sweep.models if model.paper in published]
    rows = [(model.name, PUBLISHED, SHARES[0], 7, float(published[model.paper])) for model in models]
    names = dict.fromkeys(("model", "condition", "share"), pl.String)
    return pl.DataFrame(rows, schema={**names, "scenarios": pl.Int64, "published": pl.Float64}, orient="row")
