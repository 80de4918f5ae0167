"""Reads the rollouts that a training has stored."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from orchestrator.learning.run_files import ROLLOUT_SCHEMA, ROLLOUTS


def read_rollouts(folder: Path) -> pl.DataFrame:
    """Read all rollouts of a training, in the order of steps."""
    parts = sorted((folder / ROLLOUTS).glob("steps-*.parquet"))
    rollouts = pl.concat([pl.read_parquet(part) for part in parts]) if parts else pl.DataFrame(schema=ROLLOUT_SCHEMA)
    return rollouts.sort("step", "group", maintain_order=True)
