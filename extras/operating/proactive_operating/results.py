"""The columns of decision maps and operating curves in the results of a run."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from orchestrator.report.read_run import read_run
from orchestrator.report.scores.package_measures import Samples
from proactive_operating.decisions import KNOWLEDGE, REGRETS, knowledge_table, regret_table
from proactive_operating.points import NAMES, operating_points
from sweeps.spec import Sweep

RENAMED = {"acc": "exact_acc", "ps": "exact_ps", "auc": "asking_auc", "neutral": "neutral_b"}
EXACT = ("acc", "ps", "greedy_acc", "greedy_ps", "auc", "neutral", "position_sd", "unreadable")
"""Columns of ``operating_points`` in the results, there under the names of ``RENAMED``.

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
    if any(condition.every_frame for condition in sweep.conditions):
        tables = [table.numbers for table in (knowledge_table(run_data), regret_table(run_data))]
        figures = pl.concat([numbers for numbers in tables if numbers is not None], how="diagonal")
        figures = figures.select(*NAMES, "mapped", *KNOWLEDGE, *REGRETS)
        rows = rows.join(figures, on=NAMES, how="left", maintain_order="left")
        maps = [name for name, condition in run_data.conditions.items() if condition.every_frame]
        rows = rows.with_columns(pl.col("condition").is_in(maps).alias("decision_map"), pl.col("mapped").fill_null(0))
    if any(condition.every_state for condition in sweep.conditions):
        points = operating_points(run_data).filter(pl.col("scenario").is_not_null())
        values = points.select(*NAMES, *EXACT).rename(RENAMED)
        rows = rows.join(values, on=NAMES, how="left", maintain_order="left", nulls_equal=True)
    return rows
