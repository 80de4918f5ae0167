"""``top``: the full-screen view of a running sweep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.options import named, viewed
from orchestrator.storage.lock import RunFolderError


def top(
    output: Annotated[str, typer.Argument(metavar="DIR", help="A run folder, or s3://BUCKET/FOLDER.")],
) -> None:
    """Watch a running sweep full-screen: models, GPUs, rates, queues, errors, last replies; pause and more by key."""
    if not sys.stdout.isatty():
        raise RunFolderError(
            f"top needs a terminal; `proactive-sweep status {named(output)}` prints how far the run is"
        )
    app(output).run()


def app(output: str):  # type: ignore[no-untyped-def]  # textual is imported here alone, and may be absent
    """The view; raises RunFolderError where textual is not installed, or there is no run."""
    try:
        from orchestrator.monitoring.top import Top
    except ImportError:
        raise RunFolderError("top needs textual; pip install 'proactive-sweep[top]' brings it") from None

    def folder() -> Path:
        return viewed(output)

    return Top(named(output), folder)
