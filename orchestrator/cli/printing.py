"""Lines that several commands print below their tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from actors.text.printable import printable
from orchestrator.cli.options import WIDTH
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl


def print_tables(rows: pl.DataFrame) -> None:
    """Print the cells of results.json as the paper's tables."""
    from orchestrator.report.tables.console import rich_table
    from orchestrator.report.tables.results import result_tables

    show(*map(rich_table, result_tables(rows)), min_width=WIDTH)


def precision_lines(folder: Path) -> list[str]:
    """Return the rule by which cells of a run stop and the episodes saved; empty without a rule."""
    from orchestrator.storage.lock import RunFolderError
    from orchestrator.storage.run_folder import planned_cells, stored_sweep

    try:
        rule = stored_sweep(folder).precision
        if rule is None:
            return []
        from orchestrator.report.scores.precision_stops import describe_savings

        return describe_savings(rule, planned_cells(folder))
    except RunFolderError:
        return []


def print_left_out(left_out: Iterable[object]) -> None:
    """Print the bad lines of the data that were not played, one line per scenario."""
    for scenario in left_out:
        print(printable(f"left out: {scenario}"))


def print_reused(folder: Path) -> None:
    """Print how many episodes came from which other folder."""
    from orchestrator.storage import reused

    for sentence in reused.sentences(folder):
        print(printable(sentence))


def print_mlflow(folder: Path) -> None:
    """Print the addresses of the run's MLflow pages; nothing if MLflow has no such run."""
    from orchestrator.tracking.mlflow.links import pages

    for line in pages(folder):
        print(printable(f"MLflow: {line}"))
