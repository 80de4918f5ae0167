"""What several commands print below their tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from actors.printable import printable
from orchestrator.cli.options import WIDTH
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    import polars as pl


def print_tables(rows: pl.DataFrame) -> None:
    """The tables of results.json's cells, in the paper's shape."""
    from orchestrator.report.console_tables import tables

    show(*tables(rows), least=WIDTH)


def precision_lines(folder: Path) -> list[str]:
    """The rule by which cells of a run stop, and what it has saved; none without a rule."""
    from orchestrator.storage.run_folder import RunFolderError, planned_cells, stored_sweep

    try:
        rule = stored_sweep(folder).precision
        if rule is None:
            return []
        from orchestrator.report.stopped import told

        return told(rule, planned_cells(folder))
    except RunFolderError:
        return []


def print_left_out(left_out: Iterable[object]) -> None:
    """The bad lines of the data that nobody played, one line a scenario."""
    for one in left_out:
        print(printable(f"left out: {one}"))


def print_reused(folder: Path) -> None:
    """How many episodes were played in which other folder."""
    from orchestrator.storage import reused

    for sentence in reused.sentences(folder):
        print(printable(sentence))


def print_mlflow(folder: Path) -> None:
    """Where a browser shows the table of models; nothing where MLflow has not heard of the run."""
    from orchestrator.tracking.remembered import pages

    for line in pages(folder):
        print(printable(f"MLflow: {line}"))
