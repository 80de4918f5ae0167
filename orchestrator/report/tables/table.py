"""A table as a value: every table of a report, a page or the terminal is one, and renderers turn it into text.

Texts are data, never markup; each renderer (``formats``, ``html``) escapes them for its own format.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import polars as pl

Style = Literal["", "best", "second", "unfinished", "warn"]


@dataclass(frozen=True, slots=True)
class TableCell:
    """One entry of a table."""

    text: str
    value: float | str | None = None
    """Sort key of the cell; None sorts last and is never marked best or second."""
    note: str = ""
    """An interval or a count, set smaller after the text."""
    style: Style = ""
    link: str = ""
    """Address that the page links to: ``#fragment``, or ``page.html#fragment`` relative to the page."""

    @property
    def text_with_note(self) -> str:
        return f"{self.text} ({self.note})" if self.note else self.text


MISSING, UNFINISHED = TableCell("-"), TableCell("unfinished", style="unfinished")
"""Cells without a number."""

Line = tuple[TableCell, ...]
"""A row; its first cell names it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; ``about`` explains it on demand."""

    name: str
    about: str = ""
    number: bool = True
    filter: bool = False
    """The page offers a list of its values to filter by."""
    wrap: bool = False
    """The terminal breaks long texts over lines."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, rows and notes, and the numbers behind them for CSV.

    Raises ValueError when a row does not have one cell per column.
    """

    name: str
    """Name of its files, and of its element in the page."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Line, ...]
    numbers: pl.DataFrame | None = field(default=None, compare=False)
    ranked: int = 0
    """Number of rows before those of the baselines; 0 if all rows are alike."""
    notes: tuple[str, ...] = ()
    fold_baselines: bool = False
    """The page folds the rows of baselines, and the terminal only counts them."""
    search: bool = False
    """The page offers filters and a search field."""
    figure: Callable[[Any], Any] | None = field(default=None, compare=False)
    """Draws the figure of the same name from a ``FigureContext``; a table of a package may have one."""
    is_open: bool = False
    """The page shows the table at once; others open on a click."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.name} has a row that does not fit its {len(self.columns)} columns")

    @property
    def open_rows(self) -> tuple[Line, ...]:
        """Return the rows that are shown at once."""
        return self.rows[: self.ranked] if self.fold_baselines and self.ranked else self.rows

    @property
    def folded_rows(self) -> tuple[Line, ...]:
        """Return the rows of baselines that are shown on demand."""
        return self.rows[len(self.open_rows) :]

    @property
    def legend(self) -> tuple[str, ...]:
        """Return the notes, after a sentence on unfinished cells if there are any."""
        unfinished = any(cell.style == "unfinished" for row in self.rows for cell in row)
        explained = ["An entry with a fraction is unfinished: episodes finished of those planned."] * unfinished
        return (*explained, *self.notes)


def columns(subject: str, names: Iterable[str]) -> tuple[Column, ...]:
    """Return the columns of a table: ``subject`` heads the names of the rows, the others hold numbers."""
    return (Column(subject, number=False), *map(Column, names))


def line(label: str, cells: Iterable[TableCell]) -> Line:
    """Return a row: its label, then its cells."""
    return (TableCell(label), *cells)


def drop_empty_columns(table: Table) -> Table:
    """Return the table without the columns that have no entry in any row."""
    columns = range(len(table.columns))
    filled = [n for n in columns if not n or any(row[n].text not in ("", MISSING.text) for row in table.rows)]
    rows = tuple(tuple(row[n] for n in filled) for row in table.rows)
    return replace(table, columns=tuple(table.columns[n] for n in filled), rows=rows)


def filter_values(table: Table) -> list[tuple[int, Column, list[str]]]:
    """Return the columns that can be filtered: number, column, and its values in order of appearance."""
    filters = [(n, column) for n, column in enumerate(table.columns) if column.filter]
    options = [(n, column, list(dict.fromkeys(row[n].text for row in table.rows))) for n, column in filters]
    return [option for option in options if len(option[2]) > 1]


def mark_best(rows: Sequence[Line], ranked: Sequence[bool], baselines: Sequence[bool]) -> tuple[Line, ...]:
    """Mark best and second of each column among the ranked rows, as printed to one decimal; equal cells share a mark.

    Unfinished cells are neither marked nor compared. A cell that is alone, zero, or no higher than a baseline has no mark.
    """
    marks = [
        _column_marks([row[number] for row in rows], ranked, baselines) for number in range(len(rows[0]) if rows else 0)
    ]
    return tuple(
        tuple(replace(cell, style=marks[n].get(_score(cell), cell.style)) for n, cell in enumerate(row))
        if is_ranked
        else row
        for row, is_ranked in zip(rows, ranked, strict=True)
    )


def _column_marks(cells: Sequence[TableCell], ranked: Sequence[bool], baselines: Sequence[bool]) -> dict[float, Style]:
    """Return value -> mark for the ranked cells of a column."""
    floor = max((_score(cell) for cell, is_baseline in zip(cells, baselines, strict=True) if is_baseline), default=0.0)
    compared = [_score(cell) for cell, is_ranked in zip(cells, ranked, strict=True) if is_ranked and _is_ranked(cell)]
    if len(compared) < 2:
        return {}
    best, *others = sorted(set(compared), reverse=True)
    marks: dict[float, Style] = {best: "best"}
    if others:
        marks[others[0]] = "second"
    return {rank: mark for rank, mark in marks.items() if rank > floor}


def _score(cell: TableCell) -> float:
    """Return the value by which a cell is ranked; 0 if it is not ranked."""
    return round(cell.value, 1) if _is_ranked(cell) and isinstance(cell.value, float | int) else 0.0


def _is_ranked(cell: TableCell) -> bool:
    return cell.style != "unfinished" and isinstance(cell.value, float | int)


def one_line(text: str) -> str:
    """Return the text without line breaks, control characters and marks that change the direction of text."""
    spaced = re.sub(r"\s+", " ", text).strip()
    return "".join(char for char in spaced if unicodedata.category(char)[0] != "C")
