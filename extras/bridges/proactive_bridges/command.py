"""``publish``: upload files and folders to a data set of the Hugging Face Hub."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable


def publish(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    to: Annotated[str, typer.Option("--to", metavar="OWNER/NAME", help="The data set; the token is HF_TOKEN.")],
    public: Annotated[bool, typer.Option("--public", help="Make a new data set public (default: private).")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking, as in a script.")] = False,
) -> None:
    """Upload files and folders to a data set of the Hugging Face Hub in one commit, after listing them and asking."""
    from proactive_bridges.publish import PublishError, prepare_upload
    from proactive_bridges.publish import publish as send

    upload = prepare_upload(paths, to, public)
    print(*map(printable, upload.lines()), sep="\n")
    if not yes:
        if not sys.stdin.isatty():
            raise PublishError("nothing was uploaded; add --yes after checking the list")
        if not typer.confirm("upload these files?"):
            print("nothing was uploaded")
            raise typer.Exit(1)
    print(printable(send(upload)))
