"""How much a figure depends on the order of the options and on the draw of the decoding: the variance between replicates.

Only samples that every replicate of a cell has answered are counted, so that all replicates are of the same samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from orchestrator.report.intervals import histogram, score_interval
from orchestrator.report.outcomes import groups_of, outcomes, with_clusters
from orchestrator.report.run_data import RunData, once

NAMES = ("model", "scenario", "condition")
PARTS = ("var_sample", "var_order", "var_decoding")
SCHEMA = {
    **dict.fromkeys(NAMES, pl.String),
    **dict.fromkeys(("orders", "seeds", "n"), pl.Int64),
    **dict.fromkeys(("acc", "acc_low", "acc_high", "acc_first", "least", "most", "spread", *PARTS), pl.Float64),
}


@once
def robustness(run_data: RunData) -> pl.DataFrame:
    """One row a cell of multiple choice with replicates: model, scenario, condition, orders, seeds, n (samples), and

    acc, the mean over all replicates with its 95% interval (over samples, or clusters); acc_first, the published order and
    first draw; least, most and spread (standard deviation) of the replicates' accuracies, in percent and points; var_sample,
    var_order and var_decoding, the parts of the variance of a single answer in percent of it (``parts``). var_decoding is
    null with one seed: what draws change is then in var_order.
    """
    if run_data.replicates.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    kept = ["model", "scenario", "sample_id", "correct", "condition", "order", "draw"]
    first = outcomes(run_data).filter(protocol="mcqa").with_columns(order=pl.lit(0), draw=pl.lit(0)).select(kept)
    rows = pl.concat([first, run_data.replicates.select(kept)], how="vertical_relaxed")
    played = rows.join(run_data.replicates.select(NAMES).unique(), on=list(NAMES), how="semi")
    found = [_row(run_data, names, part) for names, part in played.sort(NAMES).group_by(NAMES, maintain_order=True)]
    return pl.DataFrame([row for row in found if row], schema=SCHEMA)


def parts(right: NDArray[np.int64]) -> tuple[float, float, float | None]:
    """Variance of single answers (samples, orders, seeds), 0 or 1, between samples, orders and seeds, as shares of the sum.

    The unbiased estimates of a nested analysis of variance, none below 0: seeds within an order, orders within a sample
    (Searle, Casella and McCulloch 1992, Variance Components, section 3.5). With one seed the second holds the third.
    """
    samples, orders, seeds = right.shape
    of_order, of_sample = right.mean(axis=2), right.mean(axis=(1, 2))
    decoding = float(right.var(axis=2, ddof=1).mean()) if seeds > 1 else None
    within = float(of_order.var(axis=1, ddof=1).mean()) if orders > 1 else (decoding or 0.0) / seeds
    order = max(0.0, within - (decoding or 0.0) / seeds)
    sample = max(0.0, float(of_sample.var(ddof=1)) - within / orders) if samples > 1 else 0.0
    total = (sample + order + (decoding or 0.0)) or 1.0
    return sample / total, order / total, None if decoding is None else decoding / total


def _row(run_data: RunData, names: tuple[Any, ...], played: pl.DataFrame) -> dict[str, Any] | None:
    """One cell; None where no sample has all replicates yet."""
    orders, seeds = played["order"].n_unique(), played["draw"].n_unique()
    whole = played.filter(pl.len().over("sample_id") == orders * seeds).sort("sample_id", "order", "draw")
    if whole.is_empty():
        return None
    right = whole["correct"].cast(pl.Int64).to_numpy().reshape(-1, orders, seeds)
    each = 100 * right.mean(axis=0).ravel()
    samples = with_clusters(whole.unique("sample_id", maintain_order=True), run_data)
    low, high = _interval(right.sum(axis=(1, 2)), orders * seeds, groups_of(samples))
    measured = {"acc": 100 * float(right.mean()), "acc_low": low, "acc_high": high, "acc_first": float(each[0])}
    spread = {"least": float(each.min()), "most": float(each.max()), "spread": float(each.std(ddof=1))}
    shares = {name: None if one is None else 100 * one for name, one in zip(PARTS, parts(right), strict=True)}
    sizes = {"orders": orders, "seeds": seeds, "n": len(right)}
    return {**dict(zip(NAMES, names, strict=True)), **sizes, **measured, **spread, **shares}


def _interval(sums: NDArray[np.int64], replicates: int, groups: NDArray[np.int64] | None) -> tuple[float, float]:
    """Of the mean over replicates, in percent; samples vary, replicates are averaged."""
    low, high = score_interval([histogram(100 * sums, 0, 100 * replicates, groups)])
    return low / replicates, high / replicates
