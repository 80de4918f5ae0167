"""The columns of decision maps and operating curves in the results of a run."""

from pathlib import Path

import polars as pl

from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import Samples
from orchestrator.storage.episode_store import turns
from proactive_operating.decision_map import DecisionInputs, add_decisions
from proactive_operating.points import operating_points
from sweeps.spec import Sweep

NAMES = ("model", "scenario", "condition")
SOURCES = ("acc", "ps", "greedy_acc", "greedy_ps", "auc_own", "neutral_own", "position_sd", "unreadable")
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
    conditions = {condition.name: condition for condition in sweep.conditions}
    rows = add_decisions(rows, DecisionInputs(episodes, turns(folder), conditions, samples))
    if not any(condition.every_state for condition in sweep.conditions):
        return rows
    points = operating_points(read_run(folder)).filter(pl.col("scenario").is_not_null())
    values = points.select(*NAMES, *map(pl.col, SOURCES)).rename(dict(zip(SOURCES, EXACT, strict=True)))
    return rows.join(values, on=NAMES, how="left", maintain_order="left", nulls_equal=True)
