"""``track``, ``merge``, ``export``: hand a run to MLflow, to a larger run, or to other programs and people."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.cli.options import MovedData, RunFolder, RunFolders, readable_folder, required_name
from orchestrator.cli.printing import exit_for_faults, print_lines, print_mlflow


def track(
    folder: RunFolder,
    tracking_uri: Annotated[str | None, typer.Option(help="MLflow: 'sqlite' or an address.")] = None,
    data: MovedData = None,
) -> None:
    """Rebuild the MLflow run of a run folder, with tables, figures, the report and a sample of episodes as traces."""
    from orchestrator.tracking.mlflow.rebuild import track as rebuild

    rebuild(folder, tracking_uri, data)
    print_mlflow(folder)
    exit_for_faults([folder])


def merge(
    folders: RunFolders,
    into: Annotated[str, typer.Option("--into", metavar="DIR", help="A new run folder, or s3://BUCKET/FOLDER.")],
    prefer: Annotated[
        str, typer.Option(metavar="DIR", help="The folder to believe where two answers to one key differ.")
    ] = "",
) -> None:
    """Merge run folders of one configuration into a new one, each episode once; differing answers are listed."""
    from orchestrator.merging.merge import describe_merge
    from orchestrator.merging.merge import merge as merge_folders
    from orchestrator.object_store import run_location as remote

    with remote.open_location(required_name(into)) as location:
        merged = merge_folders(folders, location.folder, prefer)
    print_lines(describe_merge(merged))
    exit_for_faults(folders)
    raise typer.Exit(location.exit_code(0))


def export(
    paths: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="A run folder; with --publish alone, any files and folders.")
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="csv|every-eval-ever|inspect|trajectories|turns", help="The format.")
    ] = "",
    into: Annotated[
        Path | None, typer.Option("--into", metavar="DIR", help="A new folder (default: DIR-FORMAT).")
    ] = None,
    data: MovedData = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="The evaluator's name, for formats that ask.")] = "",
    publish: Annotated[
        str,
        typer.Option(metavar="OWNER/NAME", help="Then upload to this data set of the Hugging Face Hub (HF_TOKEN)."),
    ] = "",
    public: Annotated[bool, typer.Option("--public", help="Make a new data set public (default: private).")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Upload without asking, as in a script.")] = False,
) -> None:
    """Write a run in another format. Nothing is uploaded without --publish, which lists the files and asks first."""
    if not to and not publish:
        raise RunFolderError("type --to FORMAT, --publish OWNER/NAME, or both")
    if to:
        if len(paths) != 1:
            raise RunFolderError(f"--to {to} takes one run folder; export them one by one")
        exported = [_write(readable_folder(paths[0]), to, into, data, by)]
    else:
        exported = [Path(path) for path in paths]
    if publish:
        _upload(exported, publish, public, yes)
    if to:
        exit_for_faults([readable_folder(paths[0])])


def _write(folder: Path, to: str, into: Path | None, data: Path | None, by: str) -> Path:
    from orchestrator.export.export import export as write

    target = into or folder.with_name(f"{folder.name}-{to}")
    files = write(folder, to, target, data, by)
    listed = ", ".join([*files[:4], *["..."] * (len(files) > 4)])
    print_lines([f"{pluralize(len(files), 'file')} in {target}: {listed}"])
    return target


def _upload(paths: Sequence[Path], name: str, public: bool, yes: bool) -> None:
    from orchestrator.export.publish import PublishError, prepare_upload
    from orchestrator.export.publish import publish as send

    upload = prepare_upload(paths, name, public)
    print_lines(upload.lines())
    if not yes:
        if not sys.stdin.isatty():
            raise PublishError("nothing was uploaded; add --yes after checking the list")
        if not typer.confirm("upload these files?"):
            print("nothing was uploaded")
            raise typer.Exit(1)
    print_lines([send(upload)])
