"""``report``: tables, figures and pages of one run folder or several."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.compare import ReadOptions, clusters, compare_folders, show_differences
from orchestrator.cli.options import WIDTH, AsJson, ByJudge, Cluster, MovedData, RunFolders, StrictPaper
from orchestrator.cli.printing import (
    print_answers,
    print_json,
    print_lines,
    print_sources,
    print_tables,
    reads_folders,
)
from orchestrator.monitoring.console import show
from orchestrator.report.comparisons.joined_run import join_runs
from orchestrator.report.comparisons.run_comparison import NothingInCommon, compare_runs, comparison_tables
from orchestrator.report.html import write_page, write_runs_page
from orchestrator.report.measures.clustering import describe_clusters
from orchestrator.report.read_run import read_run, read_runs
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import answer_sentences
from orchestrator.report.tables.all_tables import terminal_tables, write_tables
from orchestrator.report.tables.formats import rich_table
from orchestrator.report.tables.model_input import input_notes
from orchestrator.storage.disk import disk_errors

PageFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The page on several runs (default runs.html), or the ids."),
]
Filter = Annotated[
    int | None,
    typer.Option(
        "--filter",
        min=1,
        max=100,
        metavar="PERCENT",
        help="Only show which samples the paper's filter keeps, without those that PERCENT of the models get at once.",
    ),
]


@reads_folders
def report(
    folders: RunFolders,
    data: MovedData = None,
    brief: Annotated[bool, typer.Option("--brief", help="Only print the tables; write nothing.")] = False,
    figures: Annotated[bool, typer.Option("--figures", help="Also draw every figure, as PDF and SVG.")] = False,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Cluster = "",
    output: PageFile = None,
    filter_: Filter = None,
    as_json: AsJson = False,
) -> None:
    """Print whether each model asks and the paper's tables; write tables/ and report.html into the run folder.

    For several runs, print the differences from the first, and write one page with all ranks and differences. --json writes
    nothing.
    """
    options = data, judge, strict_paper, clusters(cluster)
    if filter_ is not None:
        from orchestrator.cli.paper_filter import show_filter

        show_filter(folders[0], filter_, output, as_json)
    elif len(folders) > 1 and as_json:
        compare_folders(folders, options, as_json)
    elif len(folders) > 1:
        _report_runs(folders, options, None if brief else output or Path("runs.html"))
    else:
        _report_run(read_run(folders[0], *options), not brief, figures, as_json)


def _report_run(run_data: RunData, write: bool, figures: bool, as_json: bool) -> None:
    """Print the tables of a run, and write its files."""
    if as_json:
        intervals = f"score intervals over independent samples; in pages: {describe_clusters(run_data)}"
        notes = [*run_data.notes, *input_notes(run_data.sweep, run_data.folder)]
        answers = list(answer_sentences(run_data.rows, run_data.sweep))
        print_json({"answers": answers, "cells": run_data.rows.to_dicts(), "intervals": intervals, "notes": notes})
        return
    print_tables(run_data.rows, run_data.sweep, run_data.folder)
    show(*map(rich_table, terminal_tables(run_data)), min_width=WIDTH)
    print_sources(run_data.folder, run_data.left_out_reasons)
    if write:
        _write_run(run_data, figures)
    print_answers(run_data.rows, run_data.sweep, run_data.folder)


def _write_run(run_data: RunData, figures: bool) -> None:
    from orchestrator.report.figures.draw import write_figures

    folder = run_data.folder
    with disk_errors(folder):
        files = write_tables(run_data)
        page = write_page(run_data)
        drawn = write_figures(run_data) if figures else []
    print(f"intervals: {describe_clusters(run_data)}")
    print(f"{len(files)} files in {folder}/tables; open {page} in a browser")
    print(f"{len(drawn)} files in {folder}/figures" if figures else "report --figures draws every figure")


def _report_runs(folders: Sequence[Path], options: ReadOptions, output: Path | None) -> None:
    """Print the differences from the first run, and write one page on all of them unless ``output`` is None."""
    runs = read_runs(folders, *options)
    joined, tables = join_runs(runs)
    try:
        differences = compare_runs(runs)
        show_differences(differences)
        tables += comparison_tables(differences)
    except NothingInCommon as reason:
        print_lines([reason])
    if output is not None:
        with disk_errors(output):
            page = write_runs_page(output, tables, joined.notes)
        print_lines([f"open {page} in a browser"])
