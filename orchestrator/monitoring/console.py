"""Prints tables and lines that may contain untrusted text: from models, judges, data files and edited run folders.

Control characters are printed as escapes. They are replaced after Rich has laid out the text, so no cell is missed.
"""

import os

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from actors.text.printable import printable
from orchestrator.report.tables.formats import rich_table
from orchestrator.report.tables.table import Table


class Visible:
    """Tables and lines for Rich, without its markup and with their control characters as escapes."""

    def __init__(self, *tables_and_lines: Table | str) -> None:
        self.content = Group(*(rich_table(own) if isinstance(own, Table) else Text(own) for own in tables_and_lines))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.content, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def show(*tables_and_lines: Table | str) -> None:
    """Print on standard output; on a narrow terminal, tables are as wide as their numbers need.

    In a pipe or a file, a table is as wide as its content unless COLUMNS is set.
    """
    content, default = Visible(*tables_and_lines), Console()
    widths = [own.min_width or 0 for own in content.content.renderables if isinstance(own, RichTable)]
    unlimited = not default.is_terminal and "COLUMNS" not in os.environ
    Console(width=10_000 if unlimited else max(default.width, 0, *widths)).print(content)
