"""``report`` and ``compare``: tables, figures and pages of one run folder or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from actors.text.printable import printable
from orchestrator.cli.json_output import AsJson, print_json
from orchestrator.cli.options import WIDTH, ByJudge, Cluster, MovedData, RunFolders, StrictPaper
from orchestrator.cli.printing import exit_for_faults, print_lines, print_sources, print_tables
from orchestrator.cli.train import print_learned
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.report.comparisons.run_comparison import RunComparison
    from orchestrator.report.run_data import RunData


class Reading(NamedTuple):
    """The options that say how run folders are read."""

    data: Path | None
    judge: str
    strict_paper: bool
    cluster: str


def report(
    folders: RunFolders,
    data: MovedData = None,
    brief: Annotated[bool, typer.Option("--brief", help="Only print the tables; write nothing.")] = False,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Draw baselines grey in figures, or leave them out.")
    ] = True,
    cluster: Cluster = "",
    into: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page on several runs (default runs.html, or leaderboard.html)."),
    ] = None,
    leaderboard: Annotated[
        bool, typer.Option("--leaderboard", help="Write one page that ranks all models and people of the folders.")
    ] = False,
    learned: Annotated[
        bool, typer.Option("--learned", help="Table 3: before and after training, with the paper's figures.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the paper's tables, and write tables/, figures/ and report.html into the run folder.

    For several runs, print the differences from the first, and write one page with all ranks and differences. --json writes
    nothing.
    """
    reading = Reading(data, judge, strict_paper, cluster)
    if learned:
        print_learned(folders, data)
    elif leaderboard:
        _rank_models(folders, reading, into or Path("leaderboard.html"), as_json)
    elif len(folders) > 1 and as_json:
        _compare_runs(folders, reading, None, as_json)
    elif len(folders) > 1:
        _report_runs(folders, reading, None if brief else into or Path("runs.html"))
    else:
        _report_run(folders[0], reading, brief, baselines, as_json)
    exit_for_faults(folders)


def compare(
    folders: RunFolders,
    data: MovedData = None,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Cluster = "",
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="For several runs: write every cell.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare one run with the published figures, or several runs with the first one, on the same samples."""
    if len(folders) > 1:
        _compare_runs(folders, Reading(data, judge, strict_paper, cluster), csv, as_json)
        exit_for_faults(folders)
        return
    from orchestrator.report.comparisons import paper_comparison
    from orchestrator.report.read_run import read_run
    from orchestrator.report.tables.console import rich_table

    rows = paper_comparison.compare_with_paper(read_run(folders[0], data, judge, strict_paper))
    notes = paper_comparison.comparison_notes(rows)
    if as_json:
        print_json({"figures": rows.to_dicts(), "notes": notes})
    else:
        show(*map(rich_table, paper_comparison.comparison_tables(rows)), *notes, min_width=WIDTH)
    exit_for_faults(folders)


def _report_run(folder: Path, reading: Reading, brief: bool, baselines: bool, as_json: bool) -> None:
    from orchestrator.report.read_run import read_run

    run_data = read_run(folder, *reading)
    if as_json:
        print_json({"cells": run_data.rows.to_dicts(), "notes": run_data.notes})
        return
    _print_run(run_data)
    if not brief:
        _write_run(run_data, reading.data, baselines)


def _print_run(run_data: RunData) -> None:
    from orchestrator.report.tables.console import rich_table
    from orchestrator.report.tables.evidence import paired_table

    print_tables(run_data.rows, run_data.sweep, run_data.folder)
    table = paired_table(run_data)
    if table.rows:
        show(rich_table(table), min_width=WIDTH)
    print_sources(run_data.folder, run_data.left_out_reasons)


def _write_run(run_data: RunData, data: Path | None, baselines: bool) -> None:
    from orchestrator.report.figures.draw import write_figures
    from orchestrator.report.figures.process import figure_set
    from orchestrator.report.html import write_page
    from orchestrator.report.measures.outcomes import describe_clusters
    from orchestrator.report.tables.write import write_tables
    from orchestrator.storage.disk import disk_errors

    folder = run_data.folder
    with disk_errors(folder), figure_set(run_data, baselines) as figures:
        files = write_tables(run_data)
        page = write_page(run_data, data, figures=figures)
        files += write_figures(run_data, figures=figures)
    print(f"intervals: {describe_clusters(run_data)}")
    print(f"{len(files)} files in {folder}/tables and {folder}/figures; open {page} in a browser")


def _rank_models(folders: Sequence[Path], reading: Reading, into: Path, as_json: bool) -> None:
    """Rank the models and people of run folders on one offline page, with links to their report pages."""
    from orchestrator.report.comparisons.leaderboard import build_leaderboard
    from orchestrator.report.html.leaderboard_page import write_leaderboard
    from orchestrator.report.read_run import read_runs
    from orchestrator.storage.disk import disk_errors

    ranking = build_leaderboard(read_runs(folders, *reading))
    if as_json:
        entrants = {name: asdict(entrant) for name, entrant in ranking.entrants.items()}
        rows = [entrants[row["name"]] | row for row in ranking.rows.to_dicts()]
        print_json({"rows": rows, "cells": ranking.cells.to_dicts(), "notes": ranking.notes})
        return
    with disk_errors(into):
        page = write_leaderboard(ranking, into)
    print_lines([*ranking.notes, f"open {page} in a browser"])


def _compare_runs(folders: Sequence[Path], reading: Reading, csv: Path | None, as_json: bool) -> None:
    """Print the difference of every further run from the first, sample by sample."""
    from orchestrator.report.comparisons import run_comparison
    from orchestrator.report.read_run import read_runs
    from orchestrator.report.tables.csv import csv_text
    from orchestrator.storage.disk import disk_errors

    differences = run_comparison.compare_runs(read_runs(folders, *reading))
    if csv is not None:
        with disk_errors(csv):
            csv.write_text(csv_text(differences.cells, digits=None), encoding="utf-8")
    if as_json:
        averages = differences.averages.to_dicts()
        print_json({"cells": differences.cells.to_dicts(), "averages": averages, "notes": differences.notes})
        return
    _show_differences(differences)


def _show_differences(differences: RunComparison) -> None:
    from orchestrator.report.comparisons import run_comparison
    from orchestrator.report.tables.console import rich_table

    tables = map(rich_table, run_comparison.comparison_tables(differences))
    show(*tables, run_comparison.LEGEND, *map(printable, differences.notes), min_width=WIDTH)


def _report_runs(folders: Sequence[Path], reading: Reading, into: Path | None) -> None:
    """Print the differences from the first run, and write one page on all of them unless ``into`` is None."""
    from orchestrator.report.comparisons import run_comparison
    from orchestrator.report.comparisons.leaderboard import build_leaderboard
    from orchestrator.report.html.leaderboard_page import write_leaderboard
    from orchestrator.report.read_run import read_runs
    from orchestrator.storage.disk import disk_errors

    runs = read_runs(folders, *reading)
    ranking = build_leaderboard(runs)
    try:
        differences = run_comparison.compare_runs(runs)
        _show_differences(differences)
    except run_comparison.NothingInCommon as reason:
        differences = None
        print_lines([reason])
    if into is not None:
        with disk_errors(into):
            page = write_leaderboard(ranking, into, "Runs side by side", differences)
        print_lines([f"open {page} in a browser"])
