"""Writes a leaderboard as one HTML file that opens from disk, with links into the runs' own report pages.

Like ``report.html``, it sends no request and escapes all text of runs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import polars as pl

from orchestrator.report.comparisons.leaderboard import BASELINE, PERSON, Entrant, Leaderboard
from orchestrator.report.comparisons.run_comparison import RunComparison, comparison_tables
from orchestrator.report.html import NAME, render_template
from orchestrator.report.html.cells import measure_cell, played_cell, progress_style
from orchestrator.report.html.text import visible
from orchestrator.report.measures.ranking import FEWEST_FOR_BEST, format_probability
from orchestrator.report.tables.parts import Row, number_cell, scenario_cells
from orchestrator.report.tables.table import MISSING, Column, Line, Table, TableCell
from orchestrator.storage import safe_write

SCRIPTS = ("report.js", "tables.js")
MODEL, RUN = Column("Model", number=False), Column("Run", number=False, filter=True)
RANKS = (
    Column("Rank", "by average accuracy, on the samples that all ranked rows answered; only complete rows are ranked"),
    Column("Ranks", "ranks that are not excluded: all true ranks lie in their bounds in 95% of runs"),
    Column("P(best)", "probability of having the highest true average of those ranked"),
)
AVERAGE = Column("Avg %", "accuracy averaged over scenarios with equal weights, with its 95% interval")
SHARED = Column("Shared %", "the average over the samples that all ranked rows answered, by which they are ranked")
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
        SCRIPTS,
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
                measure_cell(row, "acc", span=True),
                *(_rank(row, rows["rank"].count()) if ranked else ()),
                *((number_cell(row["average"]),) if shared else ()),
                measure_cell(row, "ps"),
                *_accuracies(leaderboard, row, entrant, pages[entrant.run]),
                played_cell(row),
                *((TableCell(entrant.run, entrant.run),) if several_runs else ()),
            )
        )
    columns = (
        MODEL, AVERAGE, *(RANKS if ranked else ()), *((SHARED,) if shared else ()), PS,
        *(Column(f"{scenario} %", f"accuracy on {scenario}, with its 95% interval") for scenario in leaderboard.scenarios),
        PLAYED, *((RUN,) if several_runs else ()),
    )  # fmt: skip
    search = len(lines) > 1 and title != "Baselines"
    return Table(name, title, columns, tuple(lines), search=search, notes=leaderboard.input_notes)


def _rank(row: Row, models: int) -> Line:
    """Return rank, bounds, and the probability of being best, which needs ``FEWEST_FOR_BEST`` models."""
    if row["rank"] is None:
        return (MISSING,) * 3
    bounds = TableCell(f"{row['rank_low']}–{row['rank_high']}", row["rank_low"])
    best = TableCell(format_probability(row["p_best"]), row["p_best"]) if models >= FEWEST_FOR_BEST else MISSING
    return TableCell(str(row["rank"]), row["rank"]), bounds, best


def _accuracies(leaderboard: Leaderboard, row: Row, entrant: Entrant, page: str) -> list[TableCell]:
    """Return the accuracy in each scenario, with a link to its episodes in the run's page."""
    rows = leaderboard.cells.filter(model=row["name"], condition=row["condition"]).drop_nulls("acc")
    return scenario_cells(rows, leaderboard.scenarios, lambda cell: _accuracy(cell, entrant, page))


def _accuracy(cell: Row, entrant: Entrant, page: str) -> TableCell:
    names = {"model": entrant.model, "scenario": cell["scenario"], "condition": cell["condition"]}
    link = f"{page}#{urlencode(names, quote_via=quote)}" if page else ""
    limits = f"{cell['acc_low']:.0f}–{cell['acc_high']:.0f}"
    return TableCell(f"{cell['acc']:.1f}", cell["acc"], limits, progress_style(cell), link=link)
