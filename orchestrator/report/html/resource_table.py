"""What each cell took, as a sortable table of the page; costs beside the episodes that they bought."""

from __future__ import annotations

from orchestrator.report.html.tables import GAP, NAMES, Column, PageTable, Row, TableCell, names
from orchestrator.report.resources import resources
from orchestrator.report.run_data import RunData

COLUMNS = (
    *NAMES,
    Column("Played", "episodes that were played here; those taken over from other runs took nothing"),
    Column("Tokens", "prompts and replies, as the engine counts them"),
    Column("Cost", "paid to the service, in the currency of its prices; behind it, per 1,000 episodes"),
    Column("GPU-hours", "seconds in which replicas played, times their GPUs; loading is not in them"),
    Column("kWh", "of the cluster's GPUs by the drivers' power readings, shared by GPU-hours"),
)


def took(run_data: RunData) -> PageTable | None:
    """One row a cell that took money, tokens or GPU time; None where none did, as among policies."""
    rows = [row for row in resources(run_data).iter_rows(named=True) if _known(row)]
    if not rows:
        return None
    return PageTable("took", "What each cell took", COLUMNS, tuple(map(_cell, rows)), search=True)


def _known(row: Row) -> bool:
    return bool(row["prompt_tokens"] or row["cost"] or row["gpu_hours"])


def _cell(row: Row) -> tuple[TableCell, ...]:
    tokens, cost = row["prompt_tokens"] + row["reply_tokens"], row["cost"]
    each = f"{1000 * cost / row['played']:,.2f}" if cost and row["played"] else ""
    return (
        *names(row),
        TableCell(f"{row['played']:,}", row["played"]),
        TableCell(f"{tokens:,}", tokens),
        TableCell(f"{cost:,.4f}", cost, each) if cost else TableCell(GAP),
        *(
            TableCell(GAP) if value is None else TableCell(f"{value:,.3f}", value)
            for value in (row["gpu_hours"], row["kwh"])
        ),
    )
