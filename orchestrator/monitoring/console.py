"""Prints tables and lines with texts of models, judges, data files and edited run folders.

Their control characters reach the terminal as escapes: they are replaced after the layout, whichever cell they stand in.
"""

from __future__ import annotations

import os

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from actors.printable import printable

WIDEST = 10_000
"""Columns of what is no terminal."""


class Visible:
    """Anything that Rich can print, with its control characters as escapes."""

    def __init__(self, content: RenderableType) -> None:
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.content, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def show(*what: RenderableType, least: int = 0) -> None:
    """Print on standard output, at least ``least`` columns wide; a text is taken as it is, without Rich's markup.

    A pipe or a file gets names in full: there a table is as wide as its content, unless COLUMNS says otherwise.
    """
    plain = Console()
    free = not plain.is_terminal and "COLUMNS" not in os.environ
    console = Console(width=WIDEST if free else max(least, plain.width))
    for one in what:
        console.print(Visible(Text(one) if isinstance(one, str) else one))
