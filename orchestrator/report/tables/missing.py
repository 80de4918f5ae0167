"""The table of figures from which episodes are missing: worst and best case beside what the other tables show."""

from __future__ import annotations

import polars as pl

from orchestrator.report.measures.missingness import missing_bounds
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import Row, order_models
from orchestrator.report.tables.table import MISSING, Column, Table, TableCell
from orchestrator.report.wording import format_signed, pluralize

COLUMNS = (
    Column("model", number=False, filter=True),
    Column("condition", number=False, filter=True),
    Column("scenario", number=False, filter=True),
    Column("measure", number=False, filter=True),
    Column("missing", "episodes, or pairs, without an answer or cut short by a limit"),
    Column("shown", "as in the other tables"),
    Column("worst to best case", "if all missing episodes were least, or most; in brackets the 95% intervals of both"),
)
LABELS = {"acc": "accuracy", "ps": "suggestions", "loops": "loops"}
MOST_ROWS = 40
"""Rows that are shown; ``missing.csv`` has all."""


def missing_table(run_data: RunData) -> Table:
    """Return the bounds of accuracy: averages first, then cells, those with the most missing first."""
    numbers = missing_bounds(run_data)
    ranks = {name: number for number, name in enumerate(order_models(numbers["model"], run_data.baselines))}
    rows = numbers.filter(measure="acc").sort(
        pl.col("scenario") != AVERAGE, -pl.col("missing") / pl.col("n"), pl.col("model").replace_strict(ranks, default=0),
        maintain_order=True,
    )  # fmt: skip
    lines = tuple(map(_bounds_line, rows.head(MOST_ROWS).iter_rows(named=True)))
    notes = (f"{pluralize(rows.height - MOST_ROWS, 'more row')} in missing.csv",) if rows.height > MOST_ROWS else ()
    title = "figures from which more than 1% is missing: worst and best case of these episodes, with the 95% intervals of both"
    return Table("missing", title, COLUMNS, lines, numbers, notes=notes, search=len(lines) > 1)


def _bounds_line(row: Row) -> tuple[TableCell, ...]:
    signed = bool(row["against"])

    def text(value: float) -> str:
        return format_signed(value) if signed else f"{value:.1f}"

    measure = f"change of {LABELS[row['measure']]}" if signed else LABELS[row["measure"]]
    share = 100 * row["missing"] / row["n"]
    return (
        *(TableCell(row[name], row[name]) for name in ("model", "condition", "scenario")),
        TableCell(measure, measure),
        TableCell(f"{row['missing']:,} of {row['n']:,}", share, f"{share:.1f}%"),
        MISSING if row["value"] is None else TableCell(text(row["value"]), row["value"]),
        TableCell(
            f"{text(row['least'])} to {text(row['most'])}",
            row["least"],
            f"{text(row['least_low'])} to {text(row['most_high'])}",
        ),
    )
