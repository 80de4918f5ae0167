"""A run as CSV files: cells, episodes, turns and verdicts.

A text that a spreadsheet would take for a formula gets an apostrophe before it; ``trajectories`` has it as it is.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from orchestrator.report.run_data import RunData

FORMULA = r"^[=+\-@\t\r]"
"""How a text begins that Excel and its like compute (OWASP, "CSV Injection")."""


def write(run_data: RunData, into: Path, by: str = "") -> None:
    """``results.csv`` (one row a cell), ``episodes.csv``, ``turns.csv`` and, where a judge read, ``verdicts.csv``."""
    tables = {"results": run_data.rows, "episodes": run_data.episodes, "turns": run_data.turns.collect()}
    if run_data.verdicts.height:
        tables["verdicts"] = run_data.verdicts
    for name, table in tables.items():
        texts = pl.col(pl.String)
        safe = pl.when(texts.str.contains(FORMULA)).then(pl.lit("'") + texts).otherwise(texts).name.keep()
        table.with_columns(safe).write_csv(into / f"{name}.csv")
