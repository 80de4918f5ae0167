"""The main question in one row per condition: does it help, over models and scenarios that are both taken as drawn?"""

from __future__ import annotations

import polars as pl

from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.crossed_means import crossed_mean
from orchestrator.report.statistics.exact_tests import holm

SCHEMA = {
    **dict.fromkeys(("condition", "protocol"), pl.String),
    **dict.fromkeys(("models", "scenarios", "left_out"), pl.Int64),
    **dict.fromkeys(
        ("difference", "difference_low", "difference_high", "p", "between_models", "between_scenarios", "rest"),
        pl.Float64,
    ),
}


@cached_per_run
def condition_effects(run_data: RunData) -> pl.DataFrame:
    """Return one row per condition with at least three models and three scenarios: the mean change against zero-shot.

    Columns: condition, protocol, models, scenarios, left_out (models that lack one of the scenarios), difference (points, on
    the same samples) with its 95% interval and p, then standard deviations: between_models, between_scenarios, and rest (of
    one model in one scenario beyond both, sampling error included); p_holm over the conditions of a protocol. Baselines are
    in none of it.
    """
    changes = compare_conditions(run_data).filter(~pl.col("model").is_in(list(run_data.baselines)))
    rows = []
    for (condition, protocol), part in changes.group_by("condition", "protocol", maintain_order=True):
        scenarios, models = part["scenario"].n_unique(), part["model"].n_unique()
        full = part.filter(pl.len().over("model") == scenarios).sort("model", "scenario")
        mean = crossed_mean(full["difference"].to_numpy().reshape(-1, scenarios)) if full.height else None
        if mean is not None:
            number = full["model"].n_unique()
            rows.append((condition, protocol, number, scenarios, models - number, *mean))
    effects = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    corrected = [
        part.with_columns(pl.Series("p_holm", holm(part["p"].to_numpy(), part.height), dtype=pl.Float64))
        for part in effects.partition_by("protocol", maintain_order=True)
    ]
    return pl.concat(corrected) if corrected else effects.with_columns(pl.lit(None, pl.Float64).alias("p_holm"))
