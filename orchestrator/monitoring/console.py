"""Prints tables and lines that may contain untrusted text: from models, judges, data files and edited run folders.

Control characters are printed as escapes. They are replaced after Rich has laid out the text, so no cell is missed.
"""

import os

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from actors.text.printable import printable


class Visible:
    """A renderable of Rich with its control characters as escapes."""

    def __init__(self, content: RenderableType) -> None:
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.content, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def show(*renderables: RenderableType, min_width: int = 0) -> None:
    """Print on standard output, at least ``min_width`` columns wide; strings are printed without Rich's markup.

    In a pipe or a file, a table is as wide as its content unless COLUMNS is set.
    """
    default = Console()
    unlimited = not default.is_terminal and "COLUMNS" not in os.environ
    console = Console(width=10_000 if unlimited else max(min_width, default.width))
    for renderable in renderables:
        console.print(Visible(Text(renderable) if isinstance(renderable, str) else renderable))
