"""Tables on a terminal. ``monitoring.console.show`` makes control characters visible when it prints them."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from orchestrator.report.tables.table import Table, TableCell
from orchestrator.report.wording import pluralize


def rich_table(table: Table) -> RichTable:
    """Return the table for ``show``: unfinished cells are dim, notes are below, folded rows are counted."""
    notes = list(table.notes)
    if table.folded_rows:
        notes.append(f"{pluralize(len(table.folded_rows), 'row')} of baselines: tables/{table.name}.md")
    rendered = RichTable(
        title=Text(table.title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0),
        caption=Text("\n".join(notes)) if notes else None, caption_justify="left",
    )  # fmt: skip
    for column in table.columns:
        rendered.add_column(
            Text(column.name), justify="right" if column.number else "left",
            no_wrap=not column.wrap, overflow="fold" if column.wrap else "ellipsis",
        )  # fmt: skip
    for row in table.open_rows:
        rendered.add_row(*map(_format_cell, row))
    return rendered


def _format_cell(cell: TableCell) -> Text:
    text = f"{cell.text} ({cell.note})" if cell.note else cell.text
    return Text(text, style="dim" if cell.style == "unfinished" else "")
