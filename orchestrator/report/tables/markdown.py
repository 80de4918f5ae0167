"""Tables as Markdown: best in bold, second underlined, unfinished in italics."""

from __future__ import annotations

import re
from collections.abc import Iterable

from orchestrator.report.tables.table import Table, TableCell, one_line

_MARKUP = re.compile(r"([\\`*_\[\]#!|~@$]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""Characters that would be markup, a mention or a link."""


def markdown(table: Table) -> str:
    """Return a pipe table under its title, with its notes."""
    heads = [escape_markdown(column.name) for column in table.columns]
    lines = [f"**{escape_markdown(table.title)}**", "", _pipes(heads)]
    lines.append(_pipes("---:" if column.number else "---" for column in table.columns))
    lines += [_pipes(map(_format_cell, row)) for row in table.rows]
    return "\n".join([*lines, "", *map(escape_markdown, table.legend)]) + "\n"


def escape_markdown(text: str) -> str:
    """Return the text on one line, with neither Markdown nor HTML in it."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", safe)


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _format_cell(cell: TableCell) -> str:
    text = escape_markdown(f"{cell.text} ({cell.note})" if cell.note else cell.text)
    match cell.style:
        case "unfinished":
            return f"*{text}*"
        case "best":
            return f"**{text}**"
        case "second":
            return f"<u>{text}</u>"
    return text
