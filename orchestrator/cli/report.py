"""``report``: tables, figures and pages of one run folder or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.compare import ReadOptions, choose_clustering, compare_folders, show_differences
from orchestrator.cli.options import WIDTH, AsJson, ByJudge, Cluster, Independent, MovedData, RunFolders, StrictPaper
from orchestrator.cli.printing import exit_for_faults, print_json, print_lines, print_sources, print_tables
from orchestrator.cli.train import print_learned
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.report.run_data import RunData


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
    independent: Independent = False,
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
    open_page: Annotated[
        bool, typer.Option("--open", help="Also open the page in the browser of this machine.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the paper's tables, and write tables/, figures/ and report.html into the run folder.

    For several runs, print the differences from the first, and write one page with all ranks and differences. --json writes
    nothing.
    """
    options = ReadOptions(data, judge, strict_paper, choose_clustering(cluster, independent))
    page: Path | None = None
    if learned:
        print_learned(folders, data)
    elif leaderboard:
        page = _rank_models(folders, options, into or Path("leaderboard.html"), as_json)
    elif len(folders) > 1 and as_json:
        compare_folders(folders, options, None, as_json)
    elif len(folders) > 1:
        page = _report_runs(folders, options, None if brief else into or Path("runs.html"))
    else:
        page = _report_run(folders[0], options, brief, baselines, as_json)
    if open_page and page is not None:
        typer.launch(str(page))
    exit_for_faults(folders)


def _report_run(folder: Path, options: ReadOptions, brief: bool, baselines: bool, as_json: bool) -> Path | None:
    """Print the tables of a run, and write its files; return its page, None if nothing is written."""
    from orchestrator.report.measures.clustering import describe_clusters
    from orchestrator.report.read_run import read_run
    from orchestrator.report.tables.model_input import input_notes

    run_data = read_run(folder, *options)
    if as_json:
        intervals = f"acc_low and acc_high as in results.json, over independent samples; in pages: {describe_clusters(run_data)}"
        notes = [*run_data.notes, *input_notes(run_data.sweep, run_data.folder)]
        print_json({"cells": run_data.rows.to_dicts(), "intervals": intervals, "notes": notes})
        return None
    _print_run(run_data)
    return None if brief else _write_run(run_data, options.data, baselines)


def _print_run(run_data: RunData) -> None:
    from orchestrator.report.tables.all_tables import terminal_tables
    from orchestrator.report.tables.formats import rich_table

    print_tables(run_data.rows, run_data.sweep, run_data.folder)
    show(*map(rich_table, terminal_tables(run_data)), min_width=WIDTH)
    print_sources(run_data.folder, run_data.left_out_reasons)


def _write_run(run_data: RunData, data: Path | None, baselines: bool) -> Path:
    from orchestrator.report.figures.draw import write_figures
    from orchestrator.report.figures.process import figure_set
    from orchestrator.report.html import write_page
    from orchestrator.report.measures.clustering import describe_clusters
    from orchestrator.report.tables.write import write_tables
    from orchestrator.storage.disk import disk_errors

    folder = run_data.folder
    with disk_errors(folder), figure_set(run_data, baselines) as figures:
        files = write_tables(run_data)
        page = write_page(run_data, data, figures=figures)
        files += write_figures(run_data, figures=figures)
    print(f"intervals: {describe_clusters(run_data)}")
    print(f"{len(files)} files in {folder}/tables and {folder}/figures; open {page} in a browser")
    return page


def _rank_models(folders: Sequence[Path], options: ReadOptions, into: Path, as_json: bool) -> Path | None:
    """Rank the models and people of run folders on one offline page, with links to their report pages."""
    from orchestrator.report.comparisons.leaderboard import build_leaderboard
    from orchestrator.report.html.leaderboard_page import write_leaderboard
    from orchestrator.report.read_run import read_runs
    from orchestrator.storage.disk import disk_errors

    ranking = build_leaderboard(read_runs(folders, *options))
    if as_json:
        entrants = {name: asdict(entrant) for name, entrant in ranking.entrants.items()}
        rows = [entrants[row["name"]] | row for row in ranking.rows.to_dicts()]
        notes = [*ranking.notes, *ranking.input_notes]
        print_json({"rows": rows, "cells": ranking.cells.to_dicts(), "notes": notes})
        return None
    with disk_errors(into):
        page = write_leaderboard(ranking, into)
    print_lines([*ranking.notes, f"open {page} in a browser"])
    return page


def _report_runs(folders: Sequence[Path], options: ReadOptions, into: Path | None) -> Path | None:
    """Print the differences from the first run, and write one page on all of them unless ``into`` is None."""
    from orchestrator.report.comparisons import run_comparison
    from orchestrator.report.comparisons.leaderboard import build_leaderboard
    from orchestrator.report.html.leaderboard_page import write_leaderboard
    from orchestrator.report.read_run import read_runs
    from orchestrator.storage.disk import disk_errors

    runs = read_runs(folders, *options)
    ranking = build_leaderboard(runs)
    try:
        differences = run_comparison.compare_runs(runs)
        show_differences(differences)
    except run_comparison.NothingInCommon as reason:
        differences = None
        print_lines([reason])
    if into is None:
        return None
    with disk_errors(into):
        page = write_leaderboard(ranking, into, "Runs side by side", differences)
    print_lines([f"open {page} in a browser"])
    return page
