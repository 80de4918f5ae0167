"""State of each cell for ``status.json``, with the reason where there is one.

complete, partial, waiting or failed; paused or cancelled where somebody asked for that and it is not finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from orchestrator.storage.control_log import Standing


def cell_states(
    rows: pl.DataFrame, reasons: Mapping[str, str], standing: Standing | None = None
) -> list[dict[str, Any]]:
    """One dict a cell, of scored rows; ``reasons``: group -> why it could not go on."""
    cells = [
        {
            "cell": row["cell"],
            "planned": row["planned"],
            "finished": row["finished"],
            "errors": row["errors"],
            "state": _state(row, reasons),
            "reason": reasons.get(row["model"], "") if row["finished"] < row["planned"] else "",
        }
        for row in rows.iter_rows(named=True)
    ]
    return (standing or Standing()).marked(cells)


def _state(row: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    if row["finished"] == row["planned"]:
        return "failed" if row["failed"] else "complete"
    if row["model"] in reasons:
        return "failed"
    return "partial" if row["finished"] else "waiting"
