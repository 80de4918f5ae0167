"""Variance between replicates, which differ in wording, in the order of options and in the seed of decoding.

Only samples that every replicate of a cell answered count, so that all replicates are of the same samples.
"""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from orchestrator.report.measures.outcomes import add_clusters, cluster_numbers, outcomes
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.intervals import score_interval, stratum_from_values

NAMES = ("model", "scenario", "condition")
VARIANCE_COLUMNS = ("var_sample", "var_wording", "var_order", "var_decoding")
FACTORS = ("wording", "order", "draw")
MEASURED = ("acc", "acc_low", "acc_high", "acc_first", "least", "most", "spread", *VARIANCE_COLUMNS)
SCHEMA = {
    **dict.fromkeys(NAMES, pl.String),
    **dict.fromkeys(("wordings", "orders", "seeds", "n"), pl.Int64),
    **dict.fromkeys(MEASURED, pl.Float64),
}


@cached_per_run
def robustness(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell of multiple choice with replicates: names, wordings, orders, seeds, n (samples).

    Further columns: acc, the mean over all replicates with its 95% interval (over samples, or clusters); acc_first, with
    the published wording and order and the first draw; least, most and spread (standard deviation) of the replicates' accuracies;
    var_sample, var_wording, var_order and var_decoding, the parts of the variance of an answer in percent
    (``variance_components``).
    """
    if run_data.replicates.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    columns = ["model", "scenario", "sample_id", "correct", "condition", *FACTORS]
    zeros = (pl.lit(0).alias(name) for name in FACTORS)
    first = outcomes(run_data).filter(protocol="mcqa").with_columns(zeros).select(columns)
    rows = pl.concat([first, run_data.replicates.select(columns)], how="vertical_relaxed")
    played = rows.join(run_data.replicates.select(NAMES).unique(), on=list(NAMES), how="semi")
    groups = played.sort(NAMES).group_by(NAMES, maintain_order=True)
    return pl.DataFrame([row for names, part in groups if (row := _measure_cell(run_data, names, part))], schema=SCHEMA)


def variance_components(right: NDArray[np.int64]) -> tuple[float | None, ...]:
    """Return the shares of variance of answers, 0 or 1, between samples, wordings, orders and seeds.

    The parts are the unbiased estimates of a nested analysis of variance, none below 0: seeds within an order, orders within a
    wording, wordings within a sample (Searle, Casella and McCulloch 1992, Variance Components, section 3.5). A factor with one
    level has None; its variance is in the share of the factor that it is nested in.

    Args:
        right: Answers (samples, wordings, orders, seeds).
    """
    components: list[float | None] = []
    means, noise = right.astype(np.float64), 0.0
    for _ in range(3):  # seeds, orders, wordings: a factor's means also vary with the factors nested in it
        levels = means.shape[-1]
        observed = float(means.var(axis=-1, ddof=1).mean()) if levels > 1 else None
        components.append(None if observed is None else max(0.0, observed - noise))
        noise = (noise if observed is None else observed) / levels
        means = means.mean(axis=-1)
    components.append(max(0.0, float(means.var(ddof=1)) - noise) if len(means) > 1 else 0.0)
    total = sum(filter(None, components)) or 1.0
    return tuple(None if part is None else part / total for part in reversed(components))


def _measure_cell(run_data: RunData, names: tuple[Any, ...], played: pl.DataFrame) -> dict[str, Any] | None:
    """Return the row of one cell; None if no sample has all replicates yet."""
    levels = tuple(played[name].n_unique() for name in FACTORS)
    replicates = int(np.prod(levels))
    complete = played.filter(pl.len().over("sample_id") == replicates).sort("sample_id", *FACTORS)
    if complete.is_empty():
        return None
    right = complete["correct"].cast(pl.Int64).to_numpy().reshape(-1, *levels)
    scores = 100 * right.mean(axis=0).ravel()
    samples = add_clusters(complete.unique("sample_id", maintain_order=True), run_data)
    low, high = _mean_interval(right.sum(axis=(1, 2, 3)), replicates, cluster_numbers(samples))
    measured = {"acc": 100 * float(right.mean()), "acc_low": low, "acc_high": high, "acc_first": float(scores[0])}
    spread = {"least": float(scores.min()), "most": float(scores.max()), "spread": float(scores.std(ddof=1))}
    shares = {
        name: None if share is None else 100 * share
        for name, share in zip(VARIANCE_COLUMNS, variance_components(right), strict=True)
    }
    sizes = {**dict(zip(("wordings", "orders", "seeds"), levels, strict=True)), "n": len(right)}
    return {**dict(zip(NAMES, names, strict=True)), **sizes, **measured, **spread, **shares}


def _mean_interval(sums: NDArray[np.int64], replicates: int, groups: NDArray[np.int64] | None) -> tuple[float, float]:
    """Return the interval of the mean over replicates, in percent; it is an interval over samples alone."""
    low, high = score_interval([stratum_from_values(100 * sums, 0, 100 * replicates, groups)])
    return low / replicates, high / replicates
