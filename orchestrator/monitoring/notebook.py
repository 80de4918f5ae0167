"""The progress table under a notebook's cell: one display that is replaced, from whichever thread plays."""

from __future__ import annotations

import io
from html import escape
from typing import Any

from rich.console import Console, RenderableType

WIDTH = 110


class NotebookTable:
    """Shows one renderable under the cell that made it, as ``rich.live.Live`` does on a terminal."""

    def __init__(self) -> None:
        self._shown: Any = None

    def start(self) -> None:
        """Nothing is shown before the first ``update``."""

    def update(self, renderable: RenderableType, refresh: bool = True) -> None:
        """Replace what is shown."""
        from IPython.display import display  # there in every notebook

        printed = Console(width=WIDTH, file=io.StringIO(), force_jupyter=False, color_system=None)
        with printed.capture() as found:
            printed.print(renderable)
        text = found.get()
        content = {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
        if self._shown is None:
            self._shown = display(content, raw=True, display_id=True)
        else:
            self._shown.update(content, raw=True)

    def stop(self) -> None:
        """The last table stays."""
