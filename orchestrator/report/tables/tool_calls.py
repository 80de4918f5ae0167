"""Faults of malformed calls (protocol ``tools``), by model, condition and kind.

A malformed call is the last reply of its episode and is counted once: the kinds add up to the malformed calls.
"""

from __future__ import annotations

import polars as pl

from envs.tool_calls import Fault, find_fault
from envs.types import Action
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.tables.parts import model_conditions
from orchestrator.report.tables.table import Table, TableCell, columns, line
from sweeps.protocol import Protocol

COUNTS = ("malformed", *(kind.value for kind in Fault))


@cached_per_run
def malformed_calls(run_data: RunData) -> pl.DataFrame:
    """Return a row per cell of tool calls: names, turns, malformed, then a count per ``Fault``, over the scored episodes."""
    last = run_data.last_turns.filter(pl.col("action") == Action.UNPARSABLE, protocol=Protocol.TOOLS.value)
    last = last.join(run_data.scored.select("key"), on="key", how="semi", maintain_order="left")
    replies = last.select("scenario", "reply").iter_rows()
    kinds = [find_fault(scenario, reply or "").value for scenario, reply in replies]
    faults = last.select("cell").with_columns(pl.Series("kind", kinds, dtype=pl.String))
    counts = [(pl.col("kind") == kind.value).sum().cast(pl.Int64).alias(kind.value) for kind in Fault]
    by_cell = faults.group_by("cell").agg(pl.len().cast(pl.Int64).alias("malformed"), *counts)
    names = ("model", "condition", "scenario", "cell", "turns")
    rows = run_data.rows.filter(protocol=Protocol.TOOLS.value).select(names)
    return rows.join(by_cell, on="cell", how="left").with_columns(pl.col(COUNTS).fill_null(0)).sort("cell")


def malformed_calls_table(run_data: RunData) -> Table:
    """Return the share of calls that are malformed and the count of each kind, a line per model and condition."""
    numbers = malformed_calls(run_data)
    sums = numbers.group_by("model", "condition").agg(pl.col("turns", *COUNTS).sum())
    lines, ranked = [], 0
    for model, condition, part in model_conditions(run_data, sums):
        ranked += model not in run_data.baselines
        row = part.row(0, named=True)
        share = f"{100 * row['malformed'] / row['turns']:.1f}% of {row['turns']:,}" if row["turns"] else "-"
        cells = [TableCell(share), *(TableCell(str(row[kind.value])) for kind in Fault)]
        lines.append(line(f"{model}, {condition}", cells))
    title = "tool calls: malformed calls, percent of all turns; number of each kind"
    return Table("tools-malformed", title, columns("model", COUNTS), tuple(lines), numbers.drop("cell"), ranked)
