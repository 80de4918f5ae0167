"""State of each cell for ``status.json``: complete, partial, waiting or failed, with the reason where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl


def cell_states(rows: pl.DataFrame, reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """One dict a cell, of scored rows; ``reasons``: group -> why it could not go on."""
    return [
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


def _state(row: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    if row["finished"] == row["planned"]:
        return "failed" if row["failed"] else "complete"
    if row["model"] in reasons:
        return "failed"
    return "partial" if row["finished"] else "waiting"
