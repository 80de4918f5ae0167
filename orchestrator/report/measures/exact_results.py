"""The exact values of operating curves as columns of a run's results, in the row of the published order of each cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from orchestrator.operating.policy import NEUTRAL_INDEX
from orchestrator.report.measures.operating_curves import OperatingCell, operating_cells
from orchestrator.report.read_run import read_run

NAMES = ("model", "scenario", "condition")
EXACT = ("exact_acc", "exact_ps", "greedy_acc", "greedy_ps", "asking_auc", "neutral_b", "position_sd", "unreadable")
"""Percent, but for ps, AUC and b; all but the first two and ``unreadable`` are null for sampled cells."""


def add_exact_values(rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Add the columns ``EXACT`` to scored rows; they are null where there is no curve, or its samples are not at hand."""
    values = [(cell.model, cell.scenario, cell.condition, *_values(cell)) for cell in operating_cells(read_run(folder))]
    schema = {**dict.fromkeys(NAMES, pl.String), **dict.fromkeys(EXACT, pl.Float64)}
    return rows.join(
        pl.DataFrame(values, schema=schema, orient="row"), on=NAMES, how="left", maintain_order="left", nulls_equal=True
    )


def _values(cell: OperatingCell) -> tuple[float | None, ...]:
    curve = cell.curve()
    own = (100 * float(curve.accuracy[:, NEUTRAL_INDEX].mean()), float(curve.suggestions[:, NEUTRAL_INDEX].mean()))
    if not cell.exact:
        return (*own, *[None] * 5, 100 * cell.unreadable)
    right, turns = cell.greedy or (None, None)
    detection = [None if np.isnan(value) else float(value) for value in cell.detection(cell.own_labels)]
    spread = 100 * float(cell.order_accuracies.std(ddof=1)) if cell.orders > 1 else None
    return (*own, None if right is None else 100 * right, turns, *detection, spread, 100 * cell.unreadable)
