"""The numbers that figures show, without matplotlib: a few small frames, so that another process can draw them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from orchestrator.report.measures.efficiency import average_budget_curve
from orchestrator.report.measures.estimates import Estimates, estimate
from orchestrator.report.measures.model_size import model_sizes, size_correlation
from orchestrator.report.measures.paired_averages import compare_condition_averages
from orchestrator.report.measures.share_changes import share_changes
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.tables.all_tables import offered_tables
from sweeps.conditions import Condition


@dataclass(frozen=True)
class FigureNumbers:
    """The numbers of all figures, for any width."""

    cells: pl.DataFrame
    """A row per planned cell: model, scenario, condition, protocol, finished, planned."""
    baselines: frozenset[str]
    conditions: Mapping[str, Condition]
    intervals: Estimates
    changes: pl.DataFrame
    share_changes: pl.DataFrame
    budget: pl.DataFrame
    sizes: pl.DataFrame
    """Models whose size is published (``model_sizes``)."""
    capacity: pl.DataFrame
    offered: Mapping[str, Callable[[Any], Any]]
    """Figures of tables of packages, by name (``Table.figure``)."""
    sums: dict[tuple[str, ...], Mapping[tuple[str, ...], tuple[int, int]]] = field(default_factory=dict)
    """Cache of ``progress``."""

    @cached_property
    def gray(self) -> frozenset[str]:
        """Return the baselines if models were planned too, otherwise none: a run of baselines alone is in color."""
        return frozenset() if set(self.cells["model"]) <= self.baselines else self.baselines

    def progress(self, names: tuple[str, ...]) -> Mapping[tuple[str, ...], tuple[int, int]]:
        """Return finished and planned episodes of multiple choice by the values of these columns."""
        if names not in self.sums:
            cells = self.cells.filter(protocol="mcqa")
            sums = cells.group_by(names).agg(pl.col("finished", "planned").cast(pl.Int64).sum())
            self.sums[names] = {tuple(row[:-2]): (row[-2], row[-1]) for row in sums.iter_rows()}
        return self.sums[names]


@cached_per_run
def figure_numbers(run_data: RunData) -> FigureNumbers:
    """Return the numbers of a run's figures; the tables hold all of them too."""
    return FigureNumbers(
        run_data.rows.select("model", "scenario", "condition", "protocol", "finished", "planned"),
        run_data.baselines,
        run_data.conditions,
        estimate(run_data),
        compare_condition_averages(run_data).filter(protocol="mcqa"),
        share_changes(run_data),
        average_budget_curve(run_data),
        model_sizes(run_data),
        size_correlation(run_data),
        {table.name: table.figure for table in offered_tables(run_data) if table.figure},
    )
