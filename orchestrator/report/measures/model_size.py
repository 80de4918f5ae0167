"""Rank correlation of model size with accuracy and suggestions, with a permutation test."""

import numpy as np
import polars as pl
from scipy.stats import PermutationMethod, pearsonr, rankdata  # type: ignore[import-untyped]

from envs.plural import pluralize
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import average_over_scenarios
from orchestrator.report.statistics.intervals import Floats

PERMUTATIONS = 9_999
MEASURES = ("acc", "ps")


def model_sizes(run_data: RunData) -> pl.DataFrame:
    """Return models whose size is published: model, parameters (billions), condition, protocol, acc, ps, all_seven."""
    sizes = [(model.name, model.parameters) for model in run_data.sweep.models if model.parameters is not None]
    sized = pl.DataFrame(sizes, schema={"model": pl.String, "parameters": pl.Float64}, orient="row")
    means = average_over_scenarios(run_data.rows).filter(pl.col("acc").is_not_null())
    return sized.join(means, on="model").sort("condition", "protocol", "parameters", "model")


@cached_per_run
def size_correlation(run_data: RunData) -> pl.DataFrame:
    """Return Spearman's correlation of size with acc and ps: condition, protocol, measure, models, rho, p, reason.

    p is two-sided by permutation (exact for few models); null with a reason for fewer than three models or equal values.
    """
    rows = []
    for (condition, protocol), part in model_sizes(run_data).group_by(["condition", "protocol"], maintain_order=True):
        for measure in MEASURES:
            rho, p, reason = spearman(part["parameters"].to_numpy(), part[measure].to_numpy())
            rows.append((condition, protocol, measure, part.height, rho, p, reason))
    names = dict.fromkeys(("condition", "protocol", "measure"), pl.String)
    schema = {**names, "models": pl.Int64, "rho": pl.Float64, "p": pl.Float64, "reason": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def spearman(sizes: Floats, values: Floats) -> tuple[float | None, float | None, str | None]:
    """Return rho, p and no reason, or the reason why there is neither."""
    if len(sizes) < 3:
        return None, None, f"{pluralize(len(sizes), 'model')} of published size; a correlation needs three"
    if np.ptp(sizes) == 0 or np.ptp(values) == 0:
        return None, None, "all values are equal"
    permutations = PermutationMethod(n_resamples=PERMUTATIONS, rng=np.random.default_rng(0))
    test = pearsonr(rankdata(values), rankdata(sizes), method=permutations)
    return float(test.statistic), float(test.pvalue), None
