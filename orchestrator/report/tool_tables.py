"""What was wrong with malformed calls (protocol ``tools``), by model, condition and kind.

A malformed call is the last reply of its episode, and is counted once: kinds add up to the malformed ones.
"""

from __future__ import annotations

import polars as pl

from envs.tool_calls import Fault, fault
from envs.types import Action
from orchestrator.report.escaping import Entry, Grid
from orchestrator.report.grid_parts import models
from orchestrator.report.run_data import RunData, once
from sweeps.spec import Protocol

NAMES = ("model", "condition", "scenario", "cell")


@once
def faults(run_data: RunData) -> pl.DataFrame:
    """One row a cell of tool calls: names, turns, malformed, then a count for each ``Fault``, over the scored episodes."""
    ended = run_data.last.filter(pl.col("action") == Action.UNPARSABLE, protocol=Protocol.TOOLS.value)
    ended = ended.join(run_data.scored.select("key"), on="key", how="semi", maintain_order="left")
    kinds = [fault(scenario, reply or "").value for scenario, reply in ended.select("scenario", "reply").iter_rows()]
    told = ended.select("cell").with_columns(pl.Series("kind", kinds, dtype=pl.String))
    counts = [(pl.col("kind") == kind.value).sum().cast(pl.Int64).alias(kind.value) for kind in Fault]
    found = told.group_by("cell").agg(pl.len().cast(pl.Int64).alias("malformed"), *counts)
    rows = run_data.rows.filter(protocol=Protocol.TOOLS.value).select(*NAMES, "turns")
    names = ["malformed", *(kind.value for kind in Fault)]
    return rows.join(found, on="cell", how="left").with_columns(pl.col(names).fill_null(0)).sort("cell")


def malformed(run_data: RunData) -> Grid:
    """Share of calls that are malformed, and how many of each kind; a row a model and condition, over all scenarios."""
    found = faults(run_data)
    columns = ("malformed", *(kind.value for kind in Fault))
    summed = found.group_by("model", "condition").agg(pl.col("turns", *columns).sum())
    known = {(row["model"], row["condition"]): row for row in summed.iter_rows(named=True)}
    rows, ranked = [], 0
    for model in models(run_data, found["model"]):
        for name in [name for name in run_data.conditions if (model, name) in known]:
            ranked += model not in run_data.baselines
            row = known[model, name]
            share = f"{100 * row['malformed'] / row['turns']:.1f}% of {row['turns']:,}" if row["turns"] else "-"
            rows.append((f"{model}, {name}", (Entry(share), *(Entry(str(row[kind.value])) for kind in Fault))))
    title = "tool calls: malformed calls, percent of all turns; how many of each kind"
    return Grid("tools-malformed", title, columns, tuple(rows), found.drop("cell"), ranked)
