"""A table as a value: every table of a report, a page or the terminal is one, and renderers turn it into text.

Texts are data, never markup; each renderer (``formats``, ``html``) escapes them for its own format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import polars as pl

Style = Literal["", "unfinished"]
MINUS = "−"


@dataclass(frozen=True, slots=True)
class TableCell:
    """One entry of a table."""

    text: str
    note: str = ""
    """An interval or a count, set smaller after the text."""
    style: Style = ""

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
    figure: Callable[[Any], Any] | None = field(default=None, compare=False)
    """Draws the figure of the same name from ``RunData``; a table of a package may have one."""
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


def text_table(heads: Sequence[str], rows: Iterable[Iterable[object]], title: str = "", numbers: int = 0) -> Table:
    """Return a table of these values whose last columns hold ``numbers``; the texts of the others may wrap."""
    texts = len(heads) - numbers
    columns = (Column(head, number=index >= texts, wrap=index < texts) for index, head in enumerate(heads))
    cells = (tuple(TableCell(_format_value(value)) for value in row) for row in rows)
    return Table("", title, tuple(columns), tuple(cells))


def _format_value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:.3g}"
    return MISSING.text if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def line(label: str, cells: Iterable[TableCell]) -> Line:
    """Return a row: its label, then its cells."""
    return (TableCell(label), *cells)


def drop_empty_columns(table: Table) -> Table:
    """Return the table without the columns that have no entry in any row."""
    columns = range(len(table.columns))
    filled = [n for n in columns if not n or any(row[n].text not in ("", MISSING.text) for row in table.rows)]
    rows = tuple(tuple(row[n] for n in filled) for row in table.rows)
    return replace(table, columns=tuple(table.columns[n] for n in filled), rows=rows)


def format_signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign; a value that rounds to 0 has no sign."""
    text = f"{value:+,.{digits}f}"
    return text.replace("-", MINUS) if any(digit in text for digit in "123456789") else text[1:]
