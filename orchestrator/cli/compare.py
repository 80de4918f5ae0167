"""``compare``: one run with the published figures, or several with the first one."""

from collections.abc import Sequence
from pathlib import Path

from actors.text.printable import printable
from orchestrator.cli.options import WIDTH, AsJson, ByJudge, Cluster, MovedData, RunFolders, StrictPaper
from orchestrator.cli.printing import print_json, reads_folders
from orchestrator.monitoring.console import show
from orchestrator.report.comparisons import run_comparison
from orchestrator.report.measures.clustering import describe_clusters
from orchestrator.report.read_run import read_run, read_runs
from orchestrator.report.run_data import AUTOMATIC
from orchestrator.report.tables import paper_comparison
from orchestrator.report.tables.formats import rich_table
from orchestrator.report.tables.model_input import add_notes, input_notes

ReadOptions = tuple[Path | None, str, bool, str]
"""Options for reading run folders: ``--data``, ``--judge``, ``--strict-paper``, and the clusters of samples."""


def clusters(name: str) -> str:
    """Return the clusters that ``--cluster`` names; none treats all samples as independent."""
    return "" if name == "none" else name or AUTOMATIC


@reads_folders
def compare(
    folders: RunFolders,
    data: MovedData = None,
    judge: ByJudge = "",
    strict_paper: StrictPaper = False,
    cluster: Cluster = "",
    as_json: AsJson = False,
) -> None:
    """Compare one run with the published figures, or several runs with the first one, on the same samples."""
    options = data, judge, strict_paper, clusters(cluster)
    if len(folders) > 1:
        compare_folders(folders, options, as_json)
    else:
        _compare_with_paper(folders[0], options, as_json)


def _compare_with_paper(folder: Path, options: ReadOptions, as_json: bool) -> None:
    """Print the run's figures beside the published ones."""
    run_data = read_run(folder, *options)
    figures = paper_comparison.compare_with_paper(run_data)
    notes = [*paper_comparison.comparison_notes(figures), f"intervals: {describe_clusters(run_data)}"]
    notes_on_input = input_notes(run_data.sweep, run_data.folder)
    if as_json:
        print_json({"figures": figures.to_dicts(), "notes": [*notes, *notes_on_input]})
    else:
        tables = (add_notes(table, notes_on_input) for table in paper_comparison.comparison_tables(figures))
        show(*map(rich_table, tables), *notes, min_width=WIDTH)


def compare_folders(folders: Sequence[Path], options: ReadOptions, as_json: bool) -> None:
    """Print the differences of all other runs from the first, on the same samples."""
    differences = run_comparison.compare_runs(read_runs(folders, *options))
    if as_json:
        averages = differences.averages.to_dicts()
        notes = [*differences.notes, *differences.input_notes]
        print_json({"cells": differences.cells.to_dicts(), "averages": averages, "notes": notes})
    else:
        show_differences(differences)


def show_differences(differences: run_comparison.RunComparison) -> None:
    """Print the tables, the legend and the notes of a comparison of runs."""
    tables = map(rich_table, run_comparison.comparison_tables(differences))
    show(*tables, run_comparison.LEGEND, *map(printable, differences.notes), min_width=WIDTH)
