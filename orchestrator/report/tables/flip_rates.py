"""The table of `models try --flip-rate`: what changed when a share of a run was played again, read from the run folder.

A file that cannot be read counts as absent: the same command writes it again.
"""

from pathlib import Path

import polars as pl

from envs import regular
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row
from orchestrator.report.tables.table import MISSING, Column, Table, TableCell, columns, line
from orchestrator.report.wording import format_signed
from orchestrator.storage import checksums
from orchestrator.storage.schemas import UNREADABLE

RATES_FILE, CELLS_FILE, CHANGED_FILE = "rates.csv", "cells.csv", "changed.csv"
MEASURES = {
    "reply": "replies", "verdict": "verdicts", "ending": "endings", "correct": "right or not", "cell": "cells",
}  # fmt: skip
"""Measure -> heading of its column. Replies and verdicts are counted by turn, endings and right answers by episode."""
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
    "clusters); replies and verdicts are counted over turns that start from the same state"
)


def flip_rate_table(run_data: RunData) -> Table:
    """Return a line per share, setting and model; none if nothing was played again."""
    rates = read_rates(run_data.folder)
    rows = rates.iter_rows(named=True)
    lines = tuple(line(f"{row['model']}, {row['setting']} ({row['share']})", rate_cells(row)) for row in rows)
    heads = columns("model, setting (share)", (f"changed {heading}" for heading in MEASURES.values()))
    return Table("flip-rate", TITLE, heads, lines, rates)


def rate_table(rates: pl.DataFrame) -> Table:
    """Return rows of ``RATES`` as a table."""
    lines = [
        (TableCell(row["setting"]), TableCell(row["model"]), TableCell(f"{row['episodes']:,}"), *rate_cells(row))
        for row in rates.iter_rows(named=True)
    ]
    names = ("episodes", *(f"changed {heading} %" for heading in MEASURES.values()))
    heads = (Column("setting", number=False), *columns("model", names))
    return Table("flip-rate", TITLE, heads, tuple(lines), rates)


def changed_cell_table(cells: pl.DataFrame) -> Table:
    """Return rows of ``CELLS`` as a table."""
    lines = []
    for row in cells.iter_rows(named=True):
        change, low, high = (format_signed(row[name]) for name in ("difference", "difference_low", "difference_high"))
        accuracies = (f"{row[name]:.1f}" for name in ("acc_before", "acc_after"))
        counts = (f"{row[name]:,}" for name in ("lost", "won"))
        texts = (row["setting"], row["cell"], f"{row['n']:,}", *accuracies, f"{change} ({low} to {high})", *counts)
        lines.append(tuple(map(TableCell, texts)))
    names = ("n", "acc before", "acc after", "difference", "lost", "won")
    title = "cells with changed answers: acc on the same episodes, difference in points (95% interval)"
    heads = (Column("setting", number=False), *columns("cell", names))
    return Table("flip-rate-cells", title, heads, tuple(lines), cells)


def read_rates(folder: Path) -> pl.DataFrame:
    """Return the rows of ``RATES`` with their ``share``, the name of the folder that they are from."""
    frames = []
    for file in sorted((folder / "flip-rate").glob(f"*/{RATES_FILE}")):
        try:
            rows = pl.read_csv(regular.read_bytes(file, checksums.LARGEST), schema=RATES)
        except UNREADABLE:
            continue
        frames.append(rows.select(pl.lit(file.parent.name).alias("share"), *RATES))
    return pl.concat(frames) if frames else pl.DataFrame(schema={"share": pl.String, **RATES})


def measured_flips(folder: Path) -> dict[str, float]:
    """Return per model the percentage of episodes that became right or wrong: the highest upper bound over all settings."""
    bounds = read_rates(folder).drop_nulls("correct_high").group_by("model").agg(pl.col("correct_high").max())
    return dict(bounds.iter_rows())


def rate_cells(row: Row) -> list[TableCell]:
    """Return the measures of a row of ``RATES`` as cells."""
    return [_rate_cell(row, name) for name in MEASURES]


def _rate_cell(row: Row, name: str) -> TableCell:
    percent = row[f"{name}_percent"]
    if percent is None:
        return MISSING
    interval = f"({row[f'{name}_low']:.1f} to {row[f'{name}_high']:.1f})"
    return TableCell(f"{percent:.1f} {interval}, {row[f'{name}_changed']:,} of {row[f'{name}_of']:,}", percent)
