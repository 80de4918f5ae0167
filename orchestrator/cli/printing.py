"""Tables, lines and JSON that several commands print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic_core import to_jsonable_python

from actors.text.printable import printable, say
from envs.errors import DamagedRunError
from orchestrator.report.tables.formats import show
from orchestrator.report.tables.table import Table
from sweeps.packages import missing_rules

if TYPE_CHECKING:
    import polars as pl

    from sweeps.spec import Sweep


FAULTY = 3
"""The exit code of a command that has read a folder with damaged, missing or unlisted files."""


@contextmanager
def reading(folders: Sequence[Path]) -> Iterator[None]:
    """Show run folders as they are now in a block, whatever a run does to them meanwhile; at its end, name their faults.

    Exits with ``FAULTY`` if a folder has a fault.
    """
    from orchestrator.storage.part_files import hold_parts

    with hold_parts(folders):
        yield
    if faults := [fault for folder in folders for fault in _find_faults(folder)]:
        for fault in faults:
            say(fault)
        raise typer.Exit(FAULTY)


def reads_folders(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command read its argument ``folder`` or ``folders`` by ``reading``."""

    @wraps(command)
    def read(**arguments: Any) -> None:
        with reading(arguments.get("folders") or [arguments["folder"]]):
            command(**arguments)

    return read


def _find_faults(folder: Path) -> Iterator[str]:
    from orchestrator.storage.control_log import read_control_state
    from orchestrator.storage.run_folder import stored_sweep
    from orchestrator.storage.status import find_faults

    faults = [f"{folder}/{name} {problem}" for name, problem in find_faults(folder).items()]
    yield from faults
    for read in (stored_sweep, read_control_state) if not faults else ():
        try:
            read(folder)
        except DamagedRunError as fault:
            yield str(fault)


def print_tables(rows: pl.DataFrame, sweep: Sweep, folder: Path) -> None:
    """Print the cells of results.json as the paper's tables, each with a note on input that is not certified.

    Below open-ended tables, lines say how well the judge did in its gold check.
    """
    from orchestrator.gold.gold_check import gold_notes
    from orchestrator.report.tables.evidence import add_notes, input_notes
    from orchestrator.report.tables.paper_tables import result_tables

    notes = input_notes(sweep, folder)
    show(*(add_notes(table, notes) for table in result_tables(rows, sweep.baselines)))
    if "judge" in rows.columns:
        print_lines(gold_notes(folder, rows["judge"].drop_nulls().unique().sort()))


def print_answers(rows: pl.DataFrame, sweep: Sweep, folder: Path) -> None:
    """Print whether each model asks, which models' replies say little about them, and the extras that are missing."""
    from orchestrator.report.scores.answer import answer_sentences, unreadable_lines

    answers = (*unreadable_lines(rows, folder, sweep.baselines), *answer_sentences(rows, sweep, folder))
    print_lines((*answers, *missing_rules(sweep.conditions)))


def print_lines(lines: Iterable[object], prefix: str = "") -> None:
    """Print lines with control characters spelled out; each appears at once, also in a job's log."""
    for line in lines:
        print(printable(f"{prefix}{line}"), flush=True)


def print_sources(folder: Path, left_out: Iterable[object]) -> None:
    """Print the bad lines that were not played, and how many episodes came from which other folder."""
    from orchestrator.storage import reused

    print_lines([*(f"left out: {reason}" for reason in left_out), *reused.sentences(folder)])


def print_mlflow(folder: Path) -> None:
    """Print the addresses of the run's MLflow pages; nothing if MLflow has no such run."""
    from orchestrator.tracking.client import pages

    print_lines(pages(folder), "MLflow: ")


def print_result(as_json: bool, document: Any, *tables_and_lines: Table | str) -> None:
    """Print a document as JSON, or else these tables and lines."""
    if as_json:
        print_json(document)
    else:
        show(*tables_and_lines)


def print_json(document: Any) -> None:
    """Print indented ASCII JSON: control characters of foreign text are escaped, NaN and infinities are null."""
    print(json.dumps(to_jsonable_python(document, inf_nan_mode="null"), indent=2))
