"""report, compare, leaderboard: what the tables of run folders say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.printable import printable
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.options import WIDTH, ByJudge, Cluster, MovedData, RunFolders, StrictPaper
from orchestrator.cli.printing import print_left_out, print_reused, print_tables
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.report.run_data import RunData


def report(
    folders: RunFolders,
    data: MovedData = None,
    brief: Annotated[bool, typer.Option("--brief", help="Only print the tables.")] = False,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Draw baselines grey in figures, or leave them out.")
    ] = True,
    cluster: Cluster = "",
    into: Annotated[Path, typer.Option("--into", metavar="FILE", help="Of several runs: the page.")] = Path(
        "runs.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Print the paper's tables, and write tables/, figures/ and report.html from the run folder alone.

    Of several runs, print what each differs by from the first, and write one page: ranks over all of them, and differences.
    --brief and --json write nothing.
    """
    if len(folders) > 1 and as_json:
        _compare_runs(folders, data, judge, strict_paper, cluster, None, as_json)
        return
    if len(folders) > 1:
        _report_runs(folders, data, judge, strict_paper, cluster, None if brief else into)
        return
    from orchestrator.report.run_data import read

    found = read(folders[0], data, judge, strict_paper, cluster)
    if as_json:
        show_json({"cells": found.rows.to_dicts(), "notes": found.notes})
        return
    _print_run(found)
    if not brief:
        _write_run(found, data, baselines)


def compare(
    folders: RunFolders,
    data: MovedData = None,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Annotated[
        str, typer.Option(metavar="object|picture", help="Of several runs: count samples of one object as alike.")
    ] = "",
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Of several runs: write every cell there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Of one run: our figures beside the published ones. Of several: each less the first, on the same samples."""
    if len(folders) > 1:
        _compare_runs(folders, data, judge, strict_paper, cluster, csv, as_json)
        return
    from orchestrator.report import paper_comparison as beside

    rows = beside.compare(folders[0], data, judge, strict_paper)
    if as_json:
        show_json({"figures": rows.to_dicts(), "notes": beside.reasons(rows)})
        return
    show(*beside.tables(rows), *beside.reasons(rows), least=WIDTH)


def leaderboard(
    folders: RunFolders,
    into: Annotated[Path, typer.Option("--into", metavar="FILE", help="The page.")] = Path("leaderboard.html"),
    data: MovedData = None,
    cluster: Cluster = "",
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


def _print_run(found: RunData) -> None:
    from orchestrator.report.console_tables import paired as paired_table
    from orchestrator.report.evidence_tables import paired

    print_tables(found.rows)
    grid = paired(found)
    if grid.rows:
        show(paired_table(grid), least=WIDTH)
    print_left_out(found.left_out)
    print_reused(found.folder)


def _write_run(found: RunData, data: Path | None, baselines: bool) -> None:
    from orchestrator.report.figure_process import drawing
    from orchestrator.report.figures import write_figures
    from orchestrator.report.html import write_page
    from orchestrator.report.outcomes import told
    from orchestrator.report.tables import write_tables
    from orchestrator.storage.disk import disk

    folder = found.folder
    with disk(folder), drawing(found, baselines) as drawn:
        made = write_tables(found)
        page = write_page(found, data, drawn=drawn)
        made += write_figures(found, drawn=drawn)
    print(f"intervals: {told(found)}")
    print(f"{len(made)} files in {folder}/tables and {folder}/figures; open {page} in a browser")


def _compare_runs(
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


def _report_runs(
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
