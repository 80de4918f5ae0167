"""What a rule of precision is about, with its intervals: ``tables/precision.csv``.

All hold at any stop, and are of the whole sets of samples (``orchestrator.report.stopped``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs.types import UNSCORED
from orchestrator.precision.stopping import bounds
from orchestrator.report.estimates import estimate
from orchestrator.report.run_data import RunData, once
from orchestrator.report.stopped import in_order, stopped_cells
from sweeps.precision import BASE

SCHEMA = {
    **dict.fromkeys(("model", "condition", "against"), pl.String),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    **dict.fromkeys(("samples", "full"), pl.Int64),
}
Cells = Mapping[str, Mapping[str, Any]]
"""Scenario -> row of a cell."""


@once
def precise(run_data: RunData) -> pl.DataFrame:
    """One row an average over scenarios with a stopped cell, and with ``difference`` one a condition against zero-shot.

    Columns: model, condition, against (empty for an accuracy), value with low and high (percent, or points), samples (that
    count) and full (of the whole sets). Empty where nothing stopped.
    """
    full, rule = stopped_cells(run_data.rows), run_data.sweep.precision
    if rule is None or not full:
        return pl.DataFrame(schema=SCHEMA)
    means = {(row["model"], row["condition"]): row for row in _averages(run_data).iter_rows(named=True)}
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in run_data.rows.filter(protocol="mcqa").iter_rows(named=True):
        groups.setdefault((row["model"], row["condition"]), {})[row["scenario"]] = row
    found = []
    for (model, condition), cells in groups.items():
        if (model, condition) in means and any(row["cell"] in full for row in cells.values()):
            mean = means[model, condition]
            found.append((model, condition, "", mean["acc"], mean["acc_low"], mean["acc_high"], *_counts(cells)))
        base = groups.get((model, BASE), {})
        if rule.difference is not None and condition != BASE and set(cells) & set(base):
            found.append(
                (model, condition, BASE, *_difference(run_data, cells, base, rule.difference), *_counts(cells))
            )
    return pl.DataFrame(found, schema=SCHEMA, orient="row").sort("model", "condition", "against")


def _averages(run_data: RunData) -> pl.DataFrame:
    return estimate(run_data).averages.filter(protocol="mcqa").drop_nulls("acc")


def _counts(cells: Cells) -> tuple[int, int]:
    return sum(row["planned"] for row in cells.values()), sum(row["full"] for row in cells.values())


def _difference(run_data: RunData, cells: Cells, base: Cells, points: float) -> tuple[float | None, float, float]:
    """The mean difference over the scenarios that both have, up to the first stop, and its interval; in points."""
    shared = [name for name in cells if name in base]
    pairs = [(_right(run_data, cells[name]), _right(run_data, base[name])) for name in shared]
    sizes = [cells[name]["full"] for name in shared]
    short = [min(map(len, pair)) for pair, size in zip(pairs, sizes, strict=True) if min(map(len, pair)) < size]
    rounds = min(short, default=max(sizes))
    strata = [one[:rounds][: len(other)] - other[:rounds][: len(one)] for one, other in pairs]
    low, high = bounds([(one + 1) / 2 for one in strata], sizes, rounds, points / 200)
    known = [one[~np.isnan(one)] for one in strata]
    value = 100 * float(np.mean([one.mean() for one in known])) if all(len(one) for one in known) else None
    return value, 200 * low - 100, 200 * high - 100


def _right(run_data: RunData, row: Mapping[str, Any]) -> NDArray[np.float64]:
    """1 or 0 for each episode of a cell in the drawn order, nan where there is no answer."""
    mine = in_order(run_data.episodes.filter(cell=row["cell"]), run_data.sweep.seed)
    answered = pl.when(~pl.col("ending").is_in(UNSCORED)).then(pl.col("correct").cast(pl.Float64))
    return mine.select(answered.alias("right"))["right"].to_numpy()
