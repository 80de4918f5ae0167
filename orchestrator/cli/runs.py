"""Commands on several run folders, and on what leaves one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from actors.printable import printable
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.options import WIDTH, RunFolder, RunFolders, named
from orchestrator.monitoring.console import show


def compare_runs(
    folders: Sequence[Path],
    data: Path | None,
    judge: str,
    strict: bool,
    cluster: str,
    csv: Path | None,
    as_json: bool,
) -> None:
    """Print every further run less the first, sample by sample."""
    from orchestrator.report import run_comparison as beside
    from orchestrator.storage.disk import disk

    found = beside.compare_runs(folders, data, judge, strict, cluster)
    if csv is not None:
        with disk(csv):
            found.cells.write_csv(csv)
    if as_json:
        show_json({"cells": found.cells.to_dicts(), "averages": found.averages.to_dicts(), "notes": found.notes})
        return
    show(*beside.tables(found), beside.LEGEND, *map(printable, found.notes), least=WIDTH)


def report_runs(
    folders: Sequence[Path], data: Path | None, judge: str, strict: bool, cluster: str, into: Path | None
) -> None:
    """Print what each further run differs by from the first, and write one page about all of them, none without ``into``."""
    from orchestrator.report import run_comparison as beside
    from orchestrator.report.html.leaderboard_page import write_leaderboard
    from orchestrator.report.leaderboard import leaderboard as ranked
    from orchestrator.report.run_data import several
    from orchestrator.storage.disk import disk

    runs = several(folders, data, judge, strict, cluster)
    found = ranked(runs)
    try:
        differences = beside.compare_runs(runs)
        show(*beside.tables(differences), beside.LEGEND, *map(printable, differences.notes), least=WIDTH)
    except beside.NothingInCommon as nothing:
        differences = None
        print(printable(str(nothing)))
    if into is not None:
        with disk(into):
            page = write_leaderboard(found, into, "Runs side by side", differences)
        print(printable(f"open {page} in a browser"))


def leaderboard(
    folders: RunFolders,
    into: Annotated[Path, typer.Option("--into", metavar="FILE", help="The page.")] = Path("leaderboard.html"),
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The benchmark folder, if it has moved.")
    ] = None,
    cluster: Annotated[
        str, typer.Option(metavar="object|picture", help="Count samples of one object, or picture or video, as alike.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Rank the models, and people, of run folders on one offline page, with links into their report pages."""
    from orchestrator.report.html.leaderboard_page import write_leaderboard
    from orchestrator.report.leaderboard import leaderboard as ranked
    from orchestrator.storage.disk import disk

    found = ranked(folders, data, cluster=cluster)
    if as_json:
        entrants = {name: asdict(one) for name, one in found.entrants.items()}
        rows = [entrants[row["name"]] | row for row in found.rows.to_dicts()]
        show_json({"rows": rows, "cells": found.cells.to_dicts(), "notes": found.notes})
        return
    with disk(into):
        page = write_leaderboard(found, into)
    for note in found.notes:
        print(printable(note))
    print(printable(f"open {page} in a browser"))


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
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The benchmark folder, if it has moved.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who evaluated, for records that ask.")] = "",
) -> None:
    """Write a run in a format that others read; nothing is uploaded."""
    from orchestrator.export.export import export as write

    place = into or folder.with_name(f"{folder.name}-{to}")
    files = write(folder, to, place, data, by)
    print(printable(f"{len(files)} files in {place}: {', '.join(files[:4])}{', ...' if len(files) > 4 else ''}"))
