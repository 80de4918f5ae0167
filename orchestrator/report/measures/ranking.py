"""Ranks of models by their average, with bounds that are not excluded by paired tests.

Only models with complete cells are ranked, on the samples that all of them answered. A refused or unprocessable episode counts
as wrong for its model, and the sample stays in the ranking. The scenarios are fixed, the samples are not: all true ranks lie in
their bounds in 95% of runs, by tests that are corrected over all pairs (Klein, Wright and Wieczorek 2020, J. R. Stat. Soc. C
69:589-606).
"""

from collections.abc import Sequence

import polars as pl

from orchestrator.report.measures.clustering import outcomes
from orchestrator.report.measures.paired import compare_models, rank_bounds
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import missing_episodes
from sweeps.protocol import ZERO_SHOT

SCHEMA = {
    **dict.fromkeys(("model", "protocol"), pl.String),
    "average": pl.Float64,
    **dict.fromkeys(("models", "n", "rank", "rank_low", "rank_high"), pl.Int64),
}


@cached_per_run
def ranking(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Return one row per protocol and model with complete cells, best first; a protocol needs two such models.

    Columns: average over scenarios (percent: accuracy, or the judge's aggregate), models (ranked), n (shared samples), rank,
    rank_low and rank_high (95% for all models together).
    """
    _, tests = compare_models(run_data, condition, unanswered_as_wrong=True)
    tests = tests.with_columns(pl.col("p").fill_null(1.0)).select("model", "other", "difference", "p", "protocol")
    scored, rows = outcomes(run_data, unanswered_as_wrong=True).filter(condition=condition), []
    for protocol in scored["protocol"].unique().sort():
        names = _complete_models(run_data, condition, protocol)
        averages, samples = _shared_averages(scored.filter(protocol=protocol), names)
        if len(averages) < 2:
            continue
        own = tests.filter(pl.col("model").is_in(names) & pl.col("other").is_in(names), protocol=protocol)
        bounds = rank_bounds(names, own.drop("protocol").iter_rows())
        for rank, name in enumerate(sorted(names, key=lambda name: (-averages[name], name)), 1):
            rows.append((name, protocol, averages[name], len(names), samples, rank, *bounds[name]))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _complete_models(run_data: RunData, condition: str, protocol: str) -> list[str]:
    """Return the models (or, if there are none, the baselines except the oracle) with complete cells in all scenarios."""
    cells = run_data.rows.filter(condition=condition, protocol=protocol)
    rows = run_data.models_or_baselines(cells.filter(~pl.col("model").is_in(run_data.models_of_policy("oracle"))))
    done = rows.filter(missing_episodes(rows.columns) == 0).group_by("model").agg(pl.col("scenario").n_unique())
    return sorted(done.filter(pl.col("scenario") == rows["scenario"].n_unique())["model"])


def _shared_averages(scored: pl.DataFrame, names: Sequence[str]) -> tuple[dict[str, float], int]:
    """Return each model's average over scenarios on the samples that all models answered, and the number of those samples."""
    rows, sample = scored.filter(pl.col("model").is_in(list(names))), ["scenario", "sample_id"]
    shared = rows.filter(pl.len().over(sample) == len(names))
    if shared["scenario"].n_unique() < rows["scenario"].n_unique():
        return {}, 0
    percent = (100 * pl.col("correct").mean()).alias("correct")
    means = shared.group_by("model", "scenario").agg(percent).sort("model", "scenario")
    averages = dict(means.group_by("model", maintain_order=True).agg(pl.col("correct").mean()).iter_rows())
    return averages, shared.select(sample).n_unique()
