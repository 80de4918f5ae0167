"""The numbers that figures show, without matplotlib: a few small frames, so that another process can draw them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from orchestrator.report.efficiency import budget_averages
from orchestrator.report.estimates import Estimates, estimate
from orchestrator.report.model_size import capacity, points
from orchestrator.report.paired_averages import averages_against
from orchestrator.report.run_data import RunData, once
from orchestrator.report.share_changes import share_changes
from sweeps.conditions import Condition


@dataclass(frozen=True)
class Numbers:
    """What figures of any width show, computed once."""

    cells: pl.DataFrame
    """One row a planned cell: model, scenario, condition, protocol, finished, planned."""
    baselines: frozenset[str]
    conditions: Mapping[str, Condition]
    intervals: Estimates
    changes: pl.DataFrame
    share_changes: pl.DataFrame
    budget: pl.DataFrame
    sizes: pl.DataFrame
    """Models whose size is published (``model_size.points``)."""
    capacity: pl.DataFrame
    sums: dict[tuple[str, ...], Mapping[tuple[str, ...], tuple[int, int]]] = field(default_factory=dict)
    """What ``played`` has counted."""

    @cached_property
    def grey(self) -> frozenset[str]:
        """The baselines, where models were planned beside them: where only baselines were, none is grey."""
        return frozenset() if set(self.cells["model"]) <= self.baselines else self.baselines

    def played(self, names: tuple[str, ...]) -> Mapping[tuple[str, ...], tuple[int, int]]:
        """Values of these columns -> finished and planned episodes of multiple choice."""
        if names not in self.sums:
            cells = self.cells.filter(protocol="mcqa")
            sums = cells.group_by(names).agg(pl.col("finished", "planned").cast(pl.Int64).sum())
            self.sums[names] = {tuple(row[:-2]): (row[-2], row[-1]) for row in sums.iter_rows()}
        return self.sums[names]


@once
def numbers_of(run_data: RunData) -> Numbers:
    """The numbers that a run's figures show; tables hold all of them too."""
    return Numbers(
        run_data.rows.select("model", "scenario", "condition", "protocol", "finished", "planned"),
        run_data.baselines,
        run_data.conditions,
        estimate(run_data),
        averages_against(run_data).filter(protocol="mcqa"),
        share_changes(run_data),
        budget_averages(run_data),
        points(run_data),
        capacity(run_data),
    )
