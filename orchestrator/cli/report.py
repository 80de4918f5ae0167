"""``report``: tables, figures and pages of one run folder or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.compare import ReadOptions, compare_folders, show_differences
from orchestrator.cli.options import (
    WIDTH,
    AsJson,
    ByJudge,
    Cluster,
    MovedData,
    RunFolders,
    StrictPaper,
    parse_clustering,
)
from orchestrator.cli.printing import (
    exit_for_faults,
    print_answers,
    print_json,
    print_lines,
    print_sources,
    print_tables,
)
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.report.run_data import RunData


def report(
    folders: RunFolders,
    data: MovedData = None,
    brief: Annotated[bool, typer.Option("--brief", help="Only print the tables; write nothing.")] = False,
    figures: Annotated[bool, typer.Option("--figures", help="Also draw every figure, as PDF and SVG.")] = False,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Cluster = "",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The page on several runs (default runs.html or leaderboard.html), or the ids."
        ),
    ] = None,
    leaderboard: Annotated[
        bool, typer.Option("--leaderboard", help="Write one page that ranks all models and people of the folders.")
    ] = False,
    filter_: Annotated[
        int | None,
        typer.Option(
            "--filter",
            min=1,
            max=100,
            metavar="PERCENT",
            help="Only show which samples the paper's filter keeps, without those that PERCENT of the models get at once.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print whether each model asks and the paper's tables; write tables/ and report.html into the run folder.

    For several runs, print the differences from the first, and write one page with all ranks and differences. --json writes
    nothing.
    """
    options = ReadOptions(data, judge, strict_paper, parse_clustering(cluster))
    if filter_ is not None:
        from orchestrator.cli.paper_filter import show_filter

        show_filter(folders[0], filter_, output, as_json)
    elif leaderboard:
        _rank_models(folders, options, output or Path("leaderboard.html"), as_json)
    elif len(folders) > 1 and as_json:
        compare_folders(folders, options, as_json)
    elif len(folders) > 1:
        _report_runs(folders, options, None if brief else output or Path("runs.html"))
    else:
        _report_run(folders[0], options, not brief, figures, as_json)
    exit_for_faults(folders)


def _report_run(folder: Path, options: ReadOptions, write: bool, figures: bool, as_json: bool) -> None:
    """Print the tables of a run, and write its files."""
    from orchestrator.report.measures.clustering import describe_clusters
    from orchestrator.report.read_run import read_run
    from orchestrator.report.scores.answer import answer_sentences
    from orchestrator.report.tables.model_input import input_notes

    run_data = read_run(folder, *options)
    if as_json:
        intervals = f"score intervals over independent samples; in pages: {describe_clusters(run_data)}"
        notes = [*run_data.notes, *input_notes(run_data.sweep, run_data.folder)]
        answers = list(answer_sentences(run_data.rows, run_data.sweep))
        print_json({"answers": answers, "cells": run_data.rows.to_dicts(), "intervals": intervals, "notes": notes})
        return
    _print_run(run_data)
    if write:
        _write_run(run_data, figures)
    print_answers(run_data.rows, run_data.sweep, folder)


def _print_run(run_data: RunData) -> None:
    from orchestrator.report.tables.all_tables import terminal_tables
    from orchestrator.report.tables.formats import rich_table

    print_tables(run_data.rows, run_data.sweep, run_data.folder)
    show(*map(rich_table, terminal_tables(run_data)), min_width=WIDTH)
    print_sources(run_data.folder, run_data.left_out_reasons)


def _write_run(run_data: RunData, figures: bool) -> None:
    from orchestrator.report.figures.draw import write_figures
    from orchestrator.report.html import write_page
    from orchestrator.report.measures.clustering import describe_clusters
    from orchestrator.report.tables.write import write_tables
    from orchestrator.storage.disk import disk_errors

    folder = run_data.folder
    with disk_errors(folder):
        files = write_tables(run_data)
        page = write_page(run_data)
        drawn = write_figures(run_data) if figures else []
    print(f"intervals: {describe_clusters(run_data)}")
    print(f"{len(files)} files in {folder}/tables; open {page} in a browser")
    print(f"{len(drawn)} files in {folder}/figures" if figures else "report --figures draws every figure")


def _rank_models(folders: Sequence[Path], options: ReadOptions, output: Path, as_json: bool) -> None:
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
        return
    with disk_errors(output):
        page = write_leaderboard(ranking, output)
    print_lines([*ranking.notes, f"open {page} in a browser"])


def _report_runs(folders: Sequence[Path], options: ReadOptions, output: Path | None) -> None:
    """Print the differences from the first run, and write one page on all of them unless ``output`` is None."""
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
    if output is None:
        return
    with disk_errors(output):
        page = write_leaderboard(ranking, output, "Runs side by side", differences)
    print_lines([f"open {page} in a browser"])
