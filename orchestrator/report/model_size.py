"""Model size against proactiveness: a rank correlation with a permutation test.

It assumes no shape of the relation, and few models suffice.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.stats import permutation_test, rankdata  # type: ignore[import-untyped]

from orchestrator.report.intervals import Floats
from orchestrator.report.metrics import average
from orchestrator.report.run_data import RunData, once
from orchestrator.report.wording import counted

PERMUTATIONS = 9_999
MEASURES = ("acc", "ps")


def points(run_data: RunData) -> pl.DataFrame:
    """Models whose size is published: model, parameters (billions), condition, protocol, acc, ps, all_seven."""
    sizes = [(model.name, model.parameters) for model in run_data.sweep.models if model.parameters is not None]
    known = pl.DataFrame(sizes, schema={"model": pl.String, "parameters": pl.Float64}, orient="row")
    means = average(run_data.rows).filter(pl.col("acc").is_not_null())
    return known.join(means, on="model").sort("condition", "protocol", "parameters", "model")


@once
def capacity(run_data: RunData, seed: int = 0) -> pl.DataFrame:
    """Spearman's correlation of size with acc and ps: condition, protocol, measure, models, rho, p, reason.

    p is two-sided by permutation (exact when there are few models); null with a reason for fewer than three models or
    when all values are equal.
    """
    rows = []
    for (condition, protocol), part in points(run_data).group_by(["condition", "protocol"], maintain_order=True):
        for measure in MEASURES:
            rho, p, reason = spearman(part["parameters"].to_numpy(), part[measure].to_numpy(), seed)
            rows.append((condition, protocol, measure, part.height, rho, p, reason))
    names = dict.fromkeys(("condition", "protocol", "measure"), pl.String)
    schema = {**names, "models": pl.Int64, "rho": pl.Float64, "p": pl.Float64, "reason": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def spearman(sizes: Floats, values: Floats, seed: int = 0) -> tuple[float | None, float | None, str | None]:
    """rho, p, and why there is none."""
    if len(sizes) < 3:
        return None, None, f"{counted(len(sizes), 'model')} of published size, and it takes three"
    if np.ptp(sizes) == 0 or np.ptp(values) == 0:
        return None, None, "all values are equal"

    x, y = (_standard(rankdata(one)) for one in (sizes, values))

    def rho(drawn: Floats, axis: int = -1) -> Floats:
        return np.asarray((drawn * y).sum(axis=axis))

    test = permutation_test(
        (x,),
        rho,
        permutation_type="pairings",
        n_resamples=PERMUTATIONS,
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return float(test.statistic), float(test.pvalue), None


def _standard(ranks: Floats) -> Floats:
    """Ranks of mean 0 and length 1: their product is Spearman's rho, and permuting them permutes the data."""
    centred = ranks - ranks.mean()
    return np.asarray(centred / np.sqrt((centred**2).sum()), dtype=np.float64)
