"""The columns of decision maps and operating curves in the results of a run."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import Samples
from proactive_operating.decision_map import MAP_COLUMN, decisions, decisions_by_cell
from proactive_operating.points import operating_points
from sweeps.spec import Sweep

NAMES = ("model", "scenario", "condition")
SOURCES = ("acc", "ps", "greedy_acc", "greedy_ps", "auc", "neutral", "position_sd", "unreadable")
EXACT = ("exact_acc", "exact_ps", "greedy_acc", "greedy_ps", "asking_auc", "neutral_b", "position_sd", "unreadable")
"""Names of ``SOURCES`` (columns of ``operating_points``) in the results.

Percent, except ps, AUC and b; all but the first two and ``unreadable`` are null for sampled cells.
"""


def add_columns(
    rows: pl.DataFrame, folder: Path, sweep: Sweep, episodes: pl.LazyFrame, samples: Samples
) -> pl.DataFrame:
    """Return scored rows, one per cell, with the columns of decision maps and the exact values of operating curves.

    A curve's values are in the row of the condition that keeps the published order of options. They are null in all other rows,
    and where the samples cannot be read.
    """
    if not any(condition.rules for condition in sweep.conditions):
        return rows
    run_data = replace(read_run(folder), samples=samples)
    if (maps := [name for name, c in run_data.conditions.items() if c.every_frame]) and set(maps) & set(
        rows["condition"]
    ):
        by_cell = decisions_by_cell(decisions(run_data)).drop(MAP_COLUMN)
        rows = rows.join(by_cell, on="cell", how="left", maintain_order="left")
        rows = rows.with_columns(pl.col("condition").is_in(maps).alias(MAP_COLUMN), pl.col("mapped").fill_null(0))
    if not any(condition.every_state for condition in sweep.conditions):
        return rows
    points = operating_points(run_data).filter(pl.col("scenario").is_not_null())
    values = points.select(*NAMES, *map(pl.col, SOURCES)).rename(dict(zip(SOURCES, EXACT, strict=True)))
    return rows.join(values, on=NAMES, how="left", maintain_order="left", nulls_equal=True)
