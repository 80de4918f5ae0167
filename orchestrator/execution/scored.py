"""What a run folder holds of a plan, scored: one row a planned cell."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from orchestrator.planning.build_plan import belonging, planned_rows
from orchestrator.planning.plan import Plan
from orchestrator.report.metrics import score
from orchestrator.report.stopped import with_anytime
from orchestrator.storage.verdict_store import verdicts


def scored(plan: Plan, output: Path, judge: str, strict: bool = False) -> pl.DataFrame:
    """One row a planned cell (``score``), open-ended ones by this judge."""
    read = verdicts(output).filter(pl.col("judge") == judge)
    stored, planned = belonging(plan, output), planned_rows(plan)
    return with_anytime(score(stored, planned, read, strict), stored, plan.precision, plan.seed)


def all_read(rows: pl.DataFrame) -> bool:
    """Whether the judge has read every answer, those included that it could give no verdict on."""
    return bool((rows["answered"] == rows["judged"] + rows["unjudged"]).all())
