"""``track``, ``merge``, ``export``: hand a run to MLflow, to a larger run, or to other programs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from actors.text.printable import list_first
from envs.installed import install_line, offers
from envs.plural import pluralize
from orchestrator.cli.options import MovedData, RunFolder, RunFolders, readable_folder, required_name
from orchestrator.cli.printing import print_lines, print_mlflow, reads_folders

BELIEVED = "The folder to believe where answers differ."


@reads_folders
def track(
    folder: RunFolder,
    tracking_uri: Annotated[str | None, typer.Option(help="MLflow: 'sqlite' or an address.")] = None,
    data: MovedData = None,
) -> None:
    """Rebuild the MLflow run of a run folder, with tables, figures, the report and, by the extra bridges, traces of episodes."""
    from orchestrator.tracking.rebuild import track as rebuild

    rebuild(folder, tracking_uri, data)
    print_mlflow(folder)
    if "track" not in offers("bridge"):
        print(f"episodes as traces come with the extra bridges, which is not installed: {install_line('bridges')}")


@reads_folders
def merge(
    folders: RunFolders,
    output: Annotated[str, typer.Option(metavar="DIR", help="A new run folder, or s3://BUCKET/FOLDER.")],
    prefer: Annotated[Path | None, typer.Option(metavar="DIR", parser=readable_folder, help=BELIEVED)] = None,
) -> None:
    """Merge run folders of one configuration into a new one, each episode once; differing answers are listed."""
    from orchestrator.merging.merge import merge as merge_folders
    from orchestrator.object_store.run_location import open_location

    with open_location(required_name(output)) as location:
        merged = merge_folders(folders, location.folder, prefer)
    print_lines(merged.lines())
    if code := location.exit_code(0):
        raise typer.Exit(code)


@reads_folders
def export(
    folder: RunFolder,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="csv or turns; extras add others.")],
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="A new folder (default: DIR-FORMAT).")] = None,
    data: MovedData = None,
) -> None:
    """Write a run in another format."""
    from orchestrator.export import export as write

    target = output or Path(f"{os.path.abspath(folder)}-{to}")  # also of ``.``
    files = write(folder, to, target, data)
    print_lines([f"{pluralize(len(files), 'file')} in {target}: {list_first(files)}"])
