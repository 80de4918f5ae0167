"""``publish``: upload files and folders to a data set of the Hugging Face Hub, or results to models."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import printable


def publish(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    to: Annotated[
        str,
        typer.Option("--to", metavar="OWNER/NAME", help="The data set (default: models, `export --to eval-results`)."),
    ] = "",
    public: Annotated[bool, typer.Option("--public", help="Make a new data set public (default: private).")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking, as in a script.")] = False,
) -> None:
    """Upload files and folders to a data set of the Hugging Face Hub in one commit, after listing them and asking.

    Without --to, PATH is a folder of `export --to eval-results`: a pull request at each of its models.
    """
    from proactive_bridges.publish import PublishError, prepare_results, prepare_upload
    from proactive_bridges.publish import publish as send

    uploads = [prepare_upload(paths, to, public)] if to else prepare_results(paths)
    print(*(printable(line) for upload in uploads for line in upload.lines()), sep="\n")
    if not yes:
        if not sys.stdin.isatty():
            raise PublishError("nothing was uploaded; add --yes after checking the list")
        if not typer.confirm("upload these files?"):
            print("nothing was uploaded")
            raise typer.Exit(1)
    for upload in uploads:
        print(printable(send(upload)))
