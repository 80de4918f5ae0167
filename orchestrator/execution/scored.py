"""What a run folder holds of a plan: scored, one row a planned cell, and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from orchestrator.execution.circuit_breaker import NO_EVIDENCE
from orchestrator.planning.build_plan import belonging, planned_rows
from orchestrator.planning.plan import Plan
from orchestrator.report.metrics import READ, score
from orchestrator.report.stopped import with_anytime
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.verdict_store import verdicts


def scored(plan: Plan, output: Path, judge: str, strict: bool = False) -> pl.DataFrame:
    """One row a planned cell (``score``), open-ended ones by this judge.

    A model at a time: those of all at once would take much memory.
    """
    read, cells = verdicts(output).filter(pl.col("judge") == judge), planned_rows(plan)
    parts = []
    for (model,), planned in cells.group_by(["model"], maintain_order=True):
        stored = belonging(plan, output, str(model))
        parts.append(with_anytime(score(stored, planned, read, strict), stored, plan.precision, plan.seed))
    rows = pl.concat(parts, how="diagonal")  # only some models may be asked open-ended
    return rows.with_columns(pl.col(name).fill_null(0) for name in READ if name in rows.columns).sort("cell")


def all_read(rows: pl.DataFrame) -> bool:
    """Whether the judge has read every answer, those included that it could give no verdict on."""
    return bool((rows["answered"] == rows["judged"] + rows["unjudged"]).all())


def answering(plan: Plan, output: Path) -> list[tuple[str, str, str]]:
    """Model, condition and protocol of which an episode is stored that the engine did not refuse."""
    known = episodes(output).select(pl.col("model").unique().sort()).collect()["model"]
    evidence = (pl.col("turns") > 0) | ~pl.col("ending").is_in(NO_EVIDENCE)
    stored = (belonging(plan, output, model).filter(evidence) for model in known)
    return [row for rows in stored for row in rows.select("model", "condition", "protocol").unique().collect().rows()]


def stored_by_cell(plan: Plan, pending: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Cell -> planned episodes that are stored already; ``pending``: group -> ordinals."""
    missing = plan.left(pending)
    return {cell.key: plan.size(n) - missing[n] for n, cell in enumerate(plan.cells)}
