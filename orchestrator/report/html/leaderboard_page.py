"""Writes a leaderboard as one HTML file that opens from disk, with links into the runs' own report pages.

As the report's page it asks nobody for anything, and no text of a run is markup in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import polars as pl

from orchestrator.report.html import NAME, filled
from orchestrator.report.html.difference_tables import difference_tables
from orchestrator.report.html.escape import visible
from orchestrator.report.html.tables import GAP, Column, PageTable, TableCell
from orchestrator.report.leaderboard import BASELINE, PERSON, Entrant, Leaderboard
from orchestrator.report.ranking import chance
from orchestrator.report.run_comparison import Comparison
from orchestrator.storage import atomic_write

Row = Mapping[str, Any]
SCRIPTS = ("report.js", "tables.js")
MODEL, RUN = Column("Model", number=False), Column("Run", number=False, filter=True)
RANKS = (
    Column("Rank", "by average accuracy, on the samples that all ranked rows answered; only complete rows are ranked"),
    Column("Ranks", "ranks that are not excluded: all true ranks lie in their bounds in 95% of runs"),
    Column("P(best)", "chance to have the highest true average of those ranked"),
)
AVERAGE = Column("Avg %", "accuracy averaged over scenarios, each weighing the same, with its 95% interval")
SHARED = Column("Shared %", "the average over the samples that all ranked rows answered, which they are ranked by")
PS = Column("ps", "suggestions per episode, averaged over scenarios, with its 95% interval")
PLAYED = Column("Played", "finished (of planned) episodes")


@dataclass(frozen=True)
class Section:
    """One condition."""

    name: str
    title: str
    table: PageTable
    baselines: PageTable


@dataclass(frozen=True)
class RunLink:
    """A run folder, and its report page where it has one."""

    name: str
    page: str


def write_leaderboard(
    found: Leaderboard, target: Path, title: str = "Leaderboard", beside: Comparison | None = None
) -> Path:
    """Write the page and return its path; links are relative to it. Raises OSError.

    ``beside``: what each run differs by from the first, where that is shown too.
    """
    pages = {run: _report(folder, target) for run, folder in found.folders.items()}
    conditions = found.rows["condition"].unique(maintain_order=True)
    sections = [_section(found, condition, pages) for condition in conditions]
    runs = [RunLink(visible(run), page) for run, page in pages.items()]
    notes = [visible(note, 600) for note in found.notes]
    differences = difference_tables(beside) if beside else ()
    page = filled(
        "leaderboard.html.j2", SCRIPTS, title=title, sections=sections, differences=differences, runs=runs, notes=notes
    )
    atomic_write.write(target, page.encode())
    return target


def _report(folder: Path, target: Path) -> str:
    """The relative address of a run's report page, empty where there is none."""
    page = folder / NAME
    return quote(os.path.relpath(page.resolve(), target.resolve().parent)) if page.is_file() else ""


def _section(found: Leaderboard, condition: str, pages: Mapping[str, str]) -> Section:
    mine = found.rows.filter(condition=condition)
    kinds = {name: one.kind for name, one in found.entrants.items()}
    baselines = mine.filter(pl.col("name").replace_strict(kinds, return_dtype=pl.String) == BASELINE)
    others = mine.join(baselines, on="name", how="anti", maintain_order="left")
    name = "".join(char if char.isalnum() else "-" for char in condition)
    tables = (
        _table(found, others, pages, name, "Models and people"),
        _table(found, baselines, pages, f"{name}-baselines", "Baselines"),
    )
    return Section(f"condition-{name}", visible(condition), *tables)


def _table(found: Leaderboard, rows: pl.DataFrame, pages: Mapping[str, str], name: str, title: str) -> PageTable:
    """A row an entrant; ranks and runs only where there are any to tell apart."""
    ranked = rows["rank"].is_not_null().any()
    shared = bool((rows["average"] - rows["acc"]).abs().gt(1e-9).any())
    lines = []
    for row in rows.iter_rows(named=True):
        entrant = found.entrants[row["name"]]
        run = visible(entrant.run)
        unfinished = row["finished"] < row["planned"]
        lines.append(
            (
                TableCell(
                    visible(row["name"]), visible(row["name"]), "a person" if entrant.kind == PERSON else "", "name"
                ),
                *((TableCell(run, run),) if len(found.folders) > 1 else ()),
                *(_rank(row) if ranked else ()),
                _measure(row, "acc", unfinished, span=True),
                *((_number(row["average"]),) if shared else ()),
                _measure(row, "ps", unfinished),
                *_accuracies(found, row, entrant, pages[entrant.run]),
                _played(row),
            )
        )
    columns = (
        MODEL, *((RUN,) if len(found.folders) > 1 else ()), *(RANKS if ranked else ()), AVERAGE,
        *((SHARED,) if shared else ()), PS,
        *(Column(f"{scenario} %", f"accuracy on {scenario}, with its 95% interval") for scenario in found.scenarios), PLAYED,
    )  # fmt: skip
    return PageTable(name, title, columns, tuple(lines), search=len(lines) > 1 and title != "Baselines")


def _played(row: Row) -> TableCell:
    finished, planned = row["finished"], row["planned"]
    text = f"{finished:,}" if finished == planned else f"{finished:,}/{planned:,}"
    return TableCell(text, finished / max(planned, 1), style="pale" if finished < planned else "")


def _rank(row: Row) -> tuple[TableCell, ...]:
    if row["rank"] is None:
        return (TableCell(GAP),) * 3
    bounds = TableCell(f"{row['rank_low']}–{row['rank_high']}", row["rank_low"])
    return TableCell(str(row["rank"]), row["rank"]), bounds, TableCell(chance(row["p_best"]), row["p_best"])


def _number(value: float | None) -> TableCell:
    return TableCell(GAP) if value is None else TableCell(f"{value:.1f}", value)


def _measure(row: Row, name: str, unfinished: bool, span: bool = False) -> TableCell:
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if value is None:
        return TableCell(GAP)
    style = "pale" if unfinished else ""
    return TableCell(f"{value:.1f}", value, f"{low:.1f}–{high:.1f}", style, span=(value, low, high) if span else None)


def _accuracies(found: Leaderboard, row: Row, entrant: Entrant, page: str) -> list[TableCell]:
    """Accuracy in each scenario; a link opens the run's page at its episodes."""
    cells = found.cells.filter(model=row["name"], condition=row["condition"])
    known = {cell["scenario"]: cell for cell in cells.iter_rows(named=True) if cell["acc"] is not None}
    return [_accuracy(known[name], entrant, page) if name in known else TableCell(GAP) for name in found.scenarios]


def _accuracy(cell: Row, entrant: Entrant, page: str) -> TableCell:
    place = {"model": entrant.model, "scenario": cell["scenario"], "condition": cell["condition"]}
    link = urlencode(place, quote_via=quote) if page else ""
    style = "pale" if cell["finished"] < cell["planned"] else ""
    return TableCell(
        f"{cell['acc']:.1f}", cell["acc"], f"{cell['acc_low']:.0f}–{cell['acc_high']:.0f}", style, link=link, page=page
    )
