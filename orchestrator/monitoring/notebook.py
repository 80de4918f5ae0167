"""The progress table in a notebook: one display under the cell, replaced from whichever thread plays."""

from __future__ import annotations

import io
from html import escape
from typing import Any

from rich.console import Console, RenderableType

WIDTH = 110


class NotebookTable:
    """Shows a renderable under the running cell, with the interface of ``rich.live.Live``."""

    def __init__(self) -> None:
        self._display: Any = None

    def start(self) -> None:
        """Do nothing: the display appears with the first ``update``."""

    def update(self, renderable: RenderableType, refresh: bool = True) -> None:
        """Replace the displayed renderable."""
        from IPython.display import display  # installed in every notebook

        console = Console(width=WIDTH, file=io.StringIO(), force_jupyter=False, color_system=None)
        with console.capture() as capture:
            console.print(renderable)
        text = capture.get()
        content = {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
        if self._display is None:
            self._display = display(content, raw=True, display_id=True)
        else:
            self._display.update(content, raw=True)

    def stop(self) -> None:
        """Do nothing: the last table stays."""
