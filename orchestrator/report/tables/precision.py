"""The averages that a rule of precision concerns, with their intervals: ``tables/precision.csv``.

All intervals hold at any stop, and are about the full sets of samples (``orchestrator.report.scores.precision_stops``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs.types import UNSCORED
from orchestrator.precision.stopping import bounds
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.precision_stops import sort_by_draw, stopped_cells
from sweeps.protocol import ZERO_SHOT

SCHEMA = {
    **dict.fromkeys(("model", "condition", "against"), pl.String),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    **dict.fromkeys(("samples", "full"), pl.Int64),
}
Cells = Mapping[str, Mapping[str, Any]]
"""Scenario -> row of a cell."""


@cached_per_run
def stopped_averages(run_data: RunData) -> pl.DataFrame:
    """Return a row per average over scenarios with a stopped cell, and with ``difference`` one per condition against zero-shot.

    Columns: model, condition, against (empty for an accuracy), value with low and high (percent, or points), samples (that
    count) and full (of the full sets). Empty if nothing stopped.
    """
    stopped, rule = stopped_cells(run_data.rows), run_data.sweep.precision
    if rule is None or not stopped:
        return pl.DataFrame(schema=SCHEMA)
    averages = estimate(run_data).averages.filter(protocol="mcqa").drop_nulls("acc")
    means = {(row["model"], row["condition"]): row for row in averages.iter_rows(named=True)}
    groups: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in run_data.rows.filter(protocol="mcqa").iter_rows(named=True):
        groups.setdefault((row["model"], row["condition"]), {})[row["scenario"]] = row
    rows = []
    for (model, condition), cells in groups.items():
        counts = sum(row["planned"] for row in cells.values()), sum(row["full"] for row in cells.values())
        if (model, condition) in means and any(row["cell"] in stopped for row in cells.values()):
            mean = means[model, condition]
            rows.append((model, condition, "", mean["acc"], mean["acc_low"], mean["acc_high"], *counts))
        base = groups.get((model, ZERO_SHOT), {})
        if rule.difference is not None and condition != ZERO_SHOT and set(cells) & set(base):
            rows.append((model, condition, ZERO_SHOT, *_difference(run_data, cells, base, rule.difference), *counts))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("model", "condition", "against")


def _difference(run_data: RunData, cells: Cells, base: Cells, points: float) -> tuple[float | None, float, float]:
    """Return the mean difference over the shared scenarios, up to the first stop, and its interval; in points."""
    shared = [name for name in cells if name in base]
    pairs = [(_correct(run_data, cells[name]), _correct(run_data, base[name])) for name in shared]
    sizes = [cells[name]["full"] for name in shared]
    stops = [min(map(len, pair)) for pair, size in zip(pairs, sizes, strict=True) if min(map(len, pair)) < size]
    rounds = min(stops, default=max(sizes))
    strata = [left[:rounds][: len(right)] - right[:rounds][: len(left)] for left, right in pairs]
    low, high = bounds([(stratum + 1) / 2 for stratum in strata], sizes, rounds, points / 200)
    answered = [stratum[~np.isnan(stratum)] for stratum in strata]
    value = 100 * float(np.mean([part.mean() for part in answered])) if all(len(part) for part in answered) else None
    return value, 200 * low - 100, 200 * high - 100


def _correct(run_data: RunData, row: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return 1 or 0 for each episode of a cell in the order of the draw, nan if there is no answer."""
    episodes = sort_by_draw(run_data.episodes.filter(cell=row["cell"]), run_data.sweep.seed)
    answered = pl.when(~pl.col("ending").is_in(UNSCORED)).then(pl.col("correct").cast(pl.Float64))
    return episodes.select(answered.alias("correct"))["correct"].to_numpy()
