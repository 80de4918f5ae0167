"""A table on a terminal, as Markdown, LaTeX and CSV.

Tables and lines may contain untrusted text: from models, judges, data files and edited run folders. On a terminal, control
characters are printed as escapes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from actors.text.printable import FORMULA, one_line, printable
from envs.plural import pluralize
from orchestrator.report.tables.table import MINUS, MISSING, Table, TableCell

if TYPE_CHECKING:
    import polars as pl


def rich_table(table: Table) -> RichTable:
    """Return the table for Rich: unfinished cells are dim, notes are below, folded rows are counted.

    Its ``min_width`` is what it takes to show every number.
    """
    notes = list(table.notes)
    if table.folded_rows:
        notes.append(f"{pluralize(len(table.folded_rows), 'row')} of baselines: `report` writes tables/{table.name}.md")
    rendered = RichTable(
        title=_text(table.title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0),
        caption=_text("\n".join(notes)) if notes else None, caption_justify="left", min_width=1,
    )  # fmt: skip
    rows = [
        [_text(cell.text_with_note, "dim" if cell.style == "unfinished" else "") for cell in row]
        for row in table.open_rows
    ]
    for number, column in enumerate(table.columns):
        head = _text(column.name)
        widths = [1] if column.wrap else [text.cell_len for text in (head, *(row[number] for row in rows))]
        rendered.min_width = (rendered.min_width or 0) + max(widths) + 2
        justify: JustifyMethod = "right" if column.number else "left"
        rendered.add_column(head, justify=justify, no_wrap=not column.wrap, overflow="fold")
    for row in rows:
        rendered.add_row(*row)
    return rendered


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style)


def rich_group(*tables_and_lines: Table | str) -> Group:
    """Return tables and lines for Rich, without its markup and with control characters as escapes."""
    return Group(*(rich_table(own) if isinstance(own, Table) else _text(own) for own in tables_and_lines))


def show(*tables_and_lines: Table | str) -> None:
    """Print on standard output; on a narrow terminal, tables are as wide as their numbers need, and lines stay whole.

    In a pipe or a file, a table is as wide as its content unless COLUMNS is set.
    """
    content, default = rich_group(*tables_and_lines), Console()
    widths = [own.min_width or 0 for own in content.renderables if isinstance(own, RichTable)]
    unlimited = not default.is_terminal and "COLUMNS" not in os.environ
    console = Console(width=10_000 if unlimited else max(default.width, 0, *widths))
    for own in content.renderables:
        console.print(own, soft_wrap=isinstance(own, Text))


_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "'": r"\textquotesingle{}", "–": r"\textendash{}",
}  # fmt: skip
"""Character -> the command that prints it."""


def latex(table: Table) -> str:
    """Return a booktabs table, shrunk if it is wider than the line; its first line names the packages that it needs."""
    align = "".join("r" if column.number else "l" for column in table.columns)
    heads = " & ".join(escape_latex(column.name) for column in table.columns)
    lines = [
        r"% needs \usepackage[T1]{fontenc}, \usepackage{textcomp,booktabs,xcolor,graphicx}",
        r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(table.title)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{align}}}", r"\toprule", rf"{heads} \\", r"\midrule",
    ]  # fmt: skip
    for number, row in enumerate(table.rows):
        if number and number == table.ranked:
            lines.append(r"\midrule")
        name, *cells = row
        lines.append(rf"{' & '.join([escape_latex(name.text), *map(_latex_cell, cells)])} \\")
    notes = [rf"\par\footnotesize {escape_latex(note)}" for note in table.legend]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", *notes, r"\end{table}"]) + "\n"


def escape_latex(text: str) -> str:
    """Return the text as LaTeX prints it, on one line; of other characters than ASCII, only letters and the dash are kept."""
    escaped = "".join(_COMMANDS.get(c, c if ord(c) < 128 or c.isalpha() else "?") for c in one_line(text))
    return re.sub(r"-(?=-)", "-{}", escaped)  # two dashes would become a long one


def _latex_cell(cell: TableCell) -> str:
    if cell is MISSING:
        return "--"
    text = escape_latex(cell.text_with_note.replace(MINUS, "-"))
    text = re.sub(r"[+-](?=\d)", r"$\g<0>$", text).replace("*", r"$^{*}$")
    return rf"\textcolor{{gray}}{{\textsl{{{text}}}}}" if cell.style == "unfinished" else text


_MARKUP = re.compile(r"([\\`*_\[\]#!|~@$]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""Characters that would be markup, a mention or a link."""


def markdown(table: Table) -> str:
    """Return a pipe table under its title, with its notes."""
    heads = [escape_markdown(column.name) for column in table.columns]
    lines = [f"**{escape_markdown(table.title)}**", "", _pipes(heads)]
    lines.append(_pipes("---:" if column.number else "---" for column in table.columns))
    lines += [_pipes(map(_markdown_cell, row)) for row in table.rows]
    return "\n".join([*lines, "", *map(escape_markdown, table.legend)]) + "\n"


def escape_markdown(text: str) -> str:
    """Return the text on one line, with neither Markdown nor HTML in it."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", safe)


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: TableCell) -> str:
    text = escape_markdown(cell.text_with_note)
    return f"*{text}*" if cell.style == "unfinished" else text


def csv_text(frame: pl.DataFrame, digits: int | None = 9) -> str:
    """Return the frame as CSV, numbers with ``digits`` significant digits.

    A text that begins like a formula gets a leading apostrophe, so that a spreadsheet never evaluates it.
    """
    import polars as pl  # here, because commands without frames print tables, too

    texts, floats = pl.col(pl.String), pl.selectors.float()
    safe = pl.when(texts.str.contains(FORMULA)).then(pl.lit("'") + texts).otherwise(texts).name.keep()
    return frame.with_columns(safe, *([floats.round_sig_figs(digits)] if digits else [])).write_csv()
