"""The columns of a run's results in addition to the scores: decisions, measures of packages, exact values, resources."""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from orchestrator.report.measures.decision_map import DecisionInputs, add_decisions
from orchestrator.report.measures.operating_points import operating_points
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import Samples
from orchestrator.report.scores.cell_resources import add_resources
from orchestrator.report.scores.package_measures import join_package_measures, package_measures
from orchestrator.storage.episode_store import turns
from orchestrator.storage.run_folder import stored_sweep
from sweeps.spec import Sweep

NAMES = ("model", "scenario", "condition")
SOURCES = ("acc", "ps", "greedy_acc", "greedy_ps", "auc_own", "neutral_own", "position_sd", "unreadable")
EXACT = ("exact_acc", "exact_ps", "greedy_acc", "greedy_ps", "asking_auc", "neutral_b", "position_sd", "unreadable")
"""Names of ``SOURCES`` (columns of ``operating_points``) in the results.

Percent, except ps, AUC and b; all but the first two and ``unreadable`` are null for sampled cells.
"""


def add_measures(
    rows: pl.DataFrame, folder: Path, sweep: Sweep, stored: pl.LazyFrame, samples: Samples, warn: Callable[[str], None]
) -> pl.DataFrame:
    """Return scored rows of the ``stored`` episodes with every further column of results.

    ``warn`` receives one sentence for each measure of a package that fails.
    """
    replies, conditions = turns(folder), {condition.name: condition for condition in sweep.conditions}
    rows = add_decisions(rows, DecisionInputs(stored, replies, conditions, samples))
    measured, failed = package_measures(sweep.measures, stored, replies)
    for sentence in failed:
        warn(sentence)
    rows = join_package_measures(rows, measured)
    return add_resources(add_exact_values(rows, folder), folder, sweep)


def add_exact_values(rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Add the columns ``EXACT`` to the scored rows of a run with operating curves; rows of any other run stay as they are.

    A curve's values are in the row of the condition that keeps the published order of options. They are null in all other rows,
    and where the samples cannot be read.
    """
    if not any(condition.every_state for condition in stored_sweep(folder).conditions):
        return rows
    points = operating_points(read_run(folder)).filter(pl.col("scenario").is_not_null())
    values = points.select(*NAMES, *map(pl.col, SOURCES)).rename(dict(zip(SOURCES, EXACT, strict=True)))
    return rows.join(values, on=NAMES, how="left", maintain_order="left", nulls_equal=True)
