"""Writes a leaderboard as one HTML file that opens from disk, with links into the runs' own report pages.

Like ``report.html``, it sends no request and escapes all text of runs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import polars as pl

from orchestrator.report.comparisons.leaderboard import BASELINE, PERSON, Leaderboard
from orchestrator.report.comparisons.run_comparison import RunComparison, comparison_tables
from orchestrator.report.html import NAME, render_template
from orchestrator.report.html.text import visible
from orchestrator.report.tables.parts import Row, measure_cell, number_cell, scenario_cells
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell
from orchestrator.storage import safe_write

MODEL, RUN = Column("Model", number=False), Column("Run", number=False, filter=True)
RANKS = (
    Column("Rank", "by average accuracy, on the samples that all ranked rows answered; only complete rows are ranked"),
    Column("Ranks", "ranks that are not excluded: all true ranks lie in their bounds in 95% of runs"),
)
AVERAGE = Column("Avg %", "accuracy averaged over scenarios with equal weights, with its 95% interval")
SHARED = Column("Shared %", "the average over the samples that all ranked rows answered, by which they are ranked")
ASKS = Column("Asks %", "episodes whose first reply is a suggestion, averaged over scenarios, with its 95% interval")
PS = Column("ps", "suggestions per episode, averaged over scenarios, with its 95% interval")
PLAYED = Column("Played", "finished (of planned) episodes")


@dataclass(frozen=True)
class Section:
    """The tables of one condition."""

    name: str
    title: str
    table: Table
    baselines: Table


def write_leaderboard(
    leaderboard: Leaderboard, target: Path, title: str = "Leaderboard", comparison: RunComparison | None = None
) -> Path:
    """Write the page, with the differences of a comparison if there is one, and return its path."""
    pages = {run: _report_address(folder, target) for run, folder in leaderboard.folders.items()}
    conditions = leaderboard.rows["condition"].unique(maintain_order=True)
    page = render_template(
        "leaderboard.html.j2",
        title=title,
        sections=[_section(leaderboard, condition, pages) for condition in conditions],
        differences=list(comparison_tables(comparison)) if comparison else [],
        runs=[(visible(run), address) for run, address in pages.items()],
        notes=[visible(note, 600) for note in leaderboard.notes],
    )
    safe_write.write(target, page.encode())
    return target


def _report_address(folder: Path, target: Path) -> str:
    """Return the relative address of a run's report page, empty if there is none."""
    page = folder / NAME
    return quote(os.path.relpath(page.resolve(), target.resolve().parent)) if page.is_file() else ""


def _section(leaderboard: Leaderboard, condition: str, pages: Mapping[str, str]) -> Section:
    rows = leaderboard.rows.filter(condition=condition)
    names = [name for name, entrant in leaderboard.entrants.items() if entrant.kind == BASELINE]
    baselines, others = rows.filter(pl.col("name").is_in(names)), rows.filter(~pl.col("name").is_in(names))
    name = "".join(char if char.isalnum() else "-" for char in condition)
    tables = (
        _table(leaderboard, others, pages, name, "Models and people"),
        _table(leaderboard, baselines, pages, f"{name}-baselines", "Baselines"),
    )
    return Section(f"condition-{name}", visible(condition), *tables)


def _table(leaderboard: Leaderboard, rows: pl.DataFrame, pages: Mapping[str, str], name: str, title: str) -> Table:
    """Return a line per entrant; ranks and runs only if there are several."""
    several_runs = len(leaderboard.folders) > 1
    ranked = bool(rows["rank"].is_not_null().any())
    shared = bool((rows["average"] - rows["acc"]).abs().gt(1e-9).any())
    lines = []
    for row in rows.iter_rows(named=True):
        entrant = leaderboard.entrants[row["name"]]
        lines.append(
            (
                TableCell(row["name"], row["name"], "a person" if entrant.kind == PERSON else ""),
                measure_cell(row, "acc"),
                *(_rank(row) if ranked else ()),
                *((number_cell(row["average"]),) if shared else ()),
                measure_cell(row, "asks"),
                measure_cell(row, "ps"),
                *_accuracies(leaderboard, row, pages[entrant.run]),
                _played(row),
                *((TableCell(entrant.run, entrant.run),) if several_runs else ()),
            )
        )
    columns = (
        MODEL, AVERAGE, *(RANKS if ranked else ()), *((SHARED,) if shared else ()), ASKS, PS,
        *(Column(f"{scenario} %", f"accuracy on {scenario}, with its 95% interval") for scenario in leaderboard.scenarios),
        PLAYED, *((RUN,) if several_runs else ()),
    )  # fmt: skip
    search = len(lines) > 1 and title != "Baselines"
    return Table(name, title, columns, tuple(lines), search=search, notes=leaderboard.input_notes)


def _rank(row: Row) -> Line:
    """Return rank and bounds."""
    if row["rank"] is None:
        return (MISSING,) * 2
    bounds = TableCell(f"{row['rank_low']}–{row['rank_high']}", row["rank_low"])
    return TableCell(str(row["rank"]), row["rank"]), bounds


def _played(row: Row) -> TableCell:
    """Return the number of finished episodes; ``3/10`` if the row is unfinished."""
    text = f"{row['finished']:,}" + (f"/{row['planned']:,}" if row["finished"] < row["planned"] else "")
    return TableCell(text, row["finished"] / max(row["planned"], 1))


def _accuracies(leaderboard: Leaderboard, row: Row, page: str) -> list[TableCell]:
    """Return the accuracy in each scenario, with a link to the run's page."""
    rows = leaderboard.cells.filter(model=row["name"], condition=row["condition"]).drop_nulls("acc")
    return scenario_cells(rows, leaderboard.scenarios, lambda cell: replace(measure_cell(cell, "acc"), link=page))
