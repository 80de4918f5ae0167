"""``publish``: shows what would be uploaded to the Hub, and uploads it when told to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from actors.printable import printable


def publish(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders, such as an export's.")],
    to: Annotated[
        str, typer.Option("--to", metavar="OWNER/NAME", help="The data set on the Hub; made if it is not there.")
    ],
    public: Annotated[bool, typer.Option("--public", help="Make a new data set public (default: private).")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking, as in a script.")] = False,
) -> None:
    """Upload files to a data set of the Hub, after showing them; the token is taken from HF_TOKEN."""
    from orchestrator.export.publish import PublishError, prepared
    from orchestrator.export.publish import publish as send

    upload = prepared(paths, to, public)
    for line in upload.lines():
        print(printable(line))
    if not yes:
        if not sys.stdin.isatty():
            raise PublishError("nothing was sent; type --yes after looking at the list")
        if not typer.confirm("upload these files?"):
            print("nothing was sent")
            raise typer.Exit(1)
    print(printable(send(upload)))
