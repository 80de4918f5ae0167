"""merge and export: what becomes of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actors.printable import printable
from orchestrator.cli.options import MovedData, RunFolder, RunFolders, named


def merge(
    folders: RunFolders,
    into: Annotated[str, typer.Option("--into", metavar="DIR", help="A new run folder, or s3://BUCKET/FOLDER.")],
    prefer: Annotated[
        str, typer.Option(metavar="DIR", help="Which of them counts where two answers of one key differ.")
    ] = "",
) -> None:
    """Make run folders of one configuration into a new one, every episode once; answers that differ are named."""
    from orchestrator.merging.merge import merge as merge_folders
    from orchestrator.merging.merge import sentences
    from orchestrator.object_store import run_location as remote

    with remote.place(named(into)) as place:
        found = merge_folders(folders, place.folder, prefer)
    for line in sentences(found):
        print(printable(line))
    raise typer.Exit(place.code(0))


def export(
    folder: RunFolder,
    to: Annotated[str, typer.Option("--to", metavar="csv|every-eval-ever|inspect|trajectories", help="The format.")],
    into: Annotated[
        Path | None, typer.Option("--into", metavar="DIR", help="A new folder (default: beside the run).")
    ] = None,
    data: MovedData = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who evaluated, for records that ask.")] = "",
) -> None:
    """Write a run in a format that others read; nothing is uploaded."""
    from orchestrator.export.export import export as write

    place = into or folder.with_name(f"{folder.name}-{to}")
    files = write(folder, to, place, data, by)
    print(printable(f"{len(files)} files in {place}: {', '.join(files[:4])}{', ...' if len(files) > 4 else ''}"))
