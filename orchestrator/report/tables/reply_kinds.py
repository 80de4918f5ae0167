"""What replies are: shares of repeated lists, contradictions and answers that were not offered, per model and condition."""

from __future__ import annotations

import polars as pl

from envs.reply_kinds import KINDS
from orchestrator.report.measures.reply_kinds import SAME_LETTER, WARNING_PERCENT, reply_kinds
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.parts import model_conditions
from orchestrator.report.tables.table import Table, TableCell, columns, line

COLUMNS = KINDS | {SAME_LETTER: "always the same letter"}


def reply_kinds_table(run_data: RunData) -> Table:
    """Return the shares over all scenarios; empty if no model gave such a reply. Its CSV file has every cell."""
    rows = reply_kinds(run_data)
    heads = columns("model", ("replies", *COLUMNS.values()))
    if rows.is_empty() or not rows.select(pl.sum_horizontal(*COLUMNS).sum()).item():
        return Table("reply-kinds", "", heads, ())
    lines, notes = [], []
    for model, condition, part in model_conditions(run_data, rows):
        replies = int(part["replies"].sum())
        shares = {kind: float((part[kind] * part["replies"]).sum() / replies) for kind in COLUMNS}
        lines.append(line(f"{model}, {condition}", [TableCell(str(replies), replies), *map(_cell, shares.values())]))
        high = [f"{share:.0f}% {COLUMNS[kind]}" for kind, share in shares.items() if share > WARNING_PERCENT]
        notes += [f"{model}, {condition}: {', '.join(high)}"] if high else []
    title = (
        f"kinds of replies that the benchmark's reading hides, percent of all replies (! above {WARNING_PERCENT:.0f}%)"
    )
    if unread := int(rows["unread"].sum()):
        notes.append(f"{unread:,} replies were not looked at: their samples are missing (report --data DIR)")
    return Table("reply-kinds", title, heads, tuple(lines), rows, notes=tuple(notes))


def _cell(share: float) -> TableCell:
    return TableCell(f"{share:.1f}{' !' if share > WARNING_PERCENT else ''}", share)
