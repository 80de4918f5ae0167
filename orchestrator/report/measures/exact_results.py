"""The exact values of operating curves as columns of a run's results, in the row of the published order of each cell."""

from pathlib import Path

import polars as pl

from orchestrator.report.measures.operating_points import operating_points
from orchestrator.report.read_run import read_run
from orchestrator.storage.run_folder import stored_sweep

NAMES = ("model", "scenario", "condition")
SOURCES = ("acc", "ps", "greedy_acc", "greedy_ps", "auc_own", "neutral_own", "position_sd", "unreadable")
EXACT = ("exact_acc", "exact_ps", "greedy_acc", "greedy_ps", "asking_auc", "neutral_b", "position_sd", "unreadable")
"""Percent, but for ps, AUC and b; all but the first two and ``unreadable`` are null for sampled cells."""


def add_exact_values(rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Add the columns ``EXACT`` to scored rows of a run that has operating curves; return those of any other as they are.

    They are null where there is no curve, or its samples are not at hand.
    """
    if not any(condition.every_state for condition in stored_sweep(folder).conditions):
        return rows
    points = operating_points(read_run(folder)).filter(pl.col("scenario").is_not_null())
    values = points.select(*NAMES, *map(pl.col, SOURCES)).rename(dict(zip(SOURCES, EXACT, strict=True)))
    return rows.join(values, on=NAMES, how="left", maintain_order="left", nulls_equal=True)
