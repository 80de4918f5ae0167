"""The rates of answers that changed when a share of a run was played again (``models try --flip-rate``), from the run folder.

A file that cannot be read counts as absent: the same command writes it again.
"""

from pathlib import Path

import polars as pl

from envs import regular
from orchestrator.report.tables.formats import csv_text
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from orchestrator.storage import checksums, safe_write
from orchestrator.storage.schemas import UNREADABLE

RATES_FILE = "rates.csv"
MEASURES = {"reply": "changed replies", "correct": "changed right or not"}
"""Measure -> heading of its column. Replies are counted by turn, right answers by episode."""
PARTS = {"changed": pl.Int64, "of": pl.Int64, "percent": pl.Float64, "low": pl.Float64, "high": pl.Float64}
RATES = {
    **dict.fromkeys(("setting", "model"), pl.String),
    "episodes": pl.Int64,
    **{f"{name}_{part}": kind for name in MEASURES for part, kind in PARTS.items()},
}


def write_rates(folder: Path, rates: pl.DataFrame) -> None:
    """Write rows of ``RATES`` into the folder of the repeats."""
    safe_write.write(folder / RATES_FILE, csv_text(rates).encode())


def rate_table(rates: pl.DataFrame) -> Table:
    """Return a line per repeat and model."""
    rows = rates.iter_rows(named=True)
    lines = [line(f"{row['model']}, {row['setting']}", [_rate_cell(row, name) for name in MEASURES]) for row in rows]
    title = "changed when played again in other batches: percent with 95% interval over samples"
    return Table("flip-rate", title, columns("model, batch", MEASURES.values()), tuple(lines), rates)


def measured_flips(folder: Path) -> dict[str, float]:
    """Return per model the percentage of episodes that became right or wrong: the highest upper bound over all repeats."""
    bounds = dict[str, float]()
    for file in sorted((folder / "flip-rate").glob(f"*/{RATES_FILE}")):
        try:
            rows = pl.read_csv(regular.read_bytes(file, checksums.LARGEST), schema_overrides=RATES)
            highest = rows.select("model", "correct_high").drop_nulls().rows()
        except UNREADABLE:
            continue
        for model, high in highest:
            bounds[model] = max(high, bounds.get(model, 0.0))
    return bounds


def _rate_cell(row: dict[str, object], name: str) -> TableCell:
    if row[f"{name}_percent"] is None:
        return MISSING
    text = "{:.1f} ({:.1f} to {:.1f}), {:,} of {:,}"
    return TableCell(text.format(*(row[f"{name}_{part}"] for part in ("percent", "low", "high", "changed", "of"))))
