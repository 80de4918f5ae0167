"""What playing a share of a run again has changed (`proactive-sweep flip-rate`), read from the run folder for tables and page.

A table that cannot be read counts as absent: the same command writes it anew.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from envs import regular
from orchestrator.report.escaping import MISSING, Entry, Grid
from orchestrator.report.grid_parts import Row
from orchestrator.report.run_data import RunData
from orchestrator.storage import checksums
from orchestrator.storage.episode_store import UNREADABLE

RATES_FILE, CELLS_FILE, CHANGED_FILE = "rates.csv", "cells.csv", "changed.csv"
MEASURES = {
    "reply": "replies",
    "verdict": "verdicts",
    "ending": "endings",
    "correct": "right or not",
    "cell": "cells",
}
"""Measure -> the head of its column. Replies and verdicts are counted by turn, endings and right answers by episode."""
NAMES = {**dict.fromkeys(("setting", "model"), pl.String), "episodes": pl.Int64}
PARTS = {"changed": pl.Int64, "of": pl.Int64, "percent": pl.Float64, "low": pl.Float64, "high": pl.Float64}
RATES = {**NAMES, **{f"{name}_{part}": kind for name in MEASURES for part, kind in PARTS.items()}}
CELLS = {
    **dict.fromkeys(("setting", "cell", "model", "scenario", "condition", "protocol"), pl.String),
    "n": pl.Int64,
    **dict.fromkeys(("acc_before", "acc_after", "difference", "difference_low", "difference_high"), pl.Float64),
    **dict.fromkeys(("lost", "won"), pl.Int64),
}
TITLE = (
    "changed when a share was played again at other batch sizes and numbers of workers: percent with 95% interval (samples as "
    "clusters); replies and verdicts of turns asked from the same state"
)


def flip_rates(run_data: RunData) -> Grid:
    """One row a share, setting and model; empty where nothing was played again."""
    found = stored(run_data.folder)
    rows = tuple(
        (f"{row['model']}, {row['setting']} ({row['share']})", entries(row)) for row in found.iter_rows(named=True)
    )
    columns = tuple(f"changed {head}" for head in MEASURES.values())
    return Grid("flip-rate", TITLE, columns, rows, found, subject="model, setting (share)")


def stored(folder: Path) -> pl.DataFrame:
    """Rows of ``RATES`` with their ``share``, the name of the folder that they are from."""
    frames = []
    for file in sorted((folder / "flip-rate").glob(f"*/{RATES_FILE}")):
        try:
            rows = pl.read_csv(regular.content(file, checksums.LARGEST), schema=RATES)
        except UNREADABLE:
            continue
        frames.append(rows.select(pl.lit(file.parent.name).alias("share"), *RATES))
    return pl.concat(frames) if frames else pl.DataFrame(schema={"share": pl.String, **RATES})


def entries(row: Row) -> tuple[Entry, ...]:
    """The measures of a row of ``RATES`` as texts."""
    return tuple(_entry(row, name) for name in MEASURES)


def _entry(row: Row, name: str) -> Entry:
    if row[f"{name}_percent"] is None:
        return MISSING
    span = f"({row[f'{name}_low']:.1f} to {row[f'{name}_high']:.1f})"
    return Entry(
        f"{row[f'{name}_percent']:.1f} {span}, {row[f'{name}_changed']:,} of {row[f'{name}_of']:,}",
        row[f"{name}_percent"],
    )
