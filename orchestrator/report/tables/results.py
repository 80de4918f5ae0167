"""The paper's tables from the rows of ``results.json``: models x scenarios, accuracy and suggestions, or a judge's verdicts.

An unfinished cell shows its progress, and an error is never shown as a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from envs import in_paper_order
from envs.plural import pluralize
from envs.types import CUT_SHORT
from orchestrator.report.run_data import rank_of
from orchestrator.report.scores.metrics import CUT_SHORT_REASONS, missing_episodes
from orchestrator.report.scores.package_measures import measure_names
from orchestrator.report.tables.parts import Row, progress_text, scenario_cells
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from sweeps.conditions import CONDITIONS
from sweeps.registry import registry

MOST_CELLS = 6
"""Number of cells that a note names; it counts the rest."""
MARKS = {"!": "errors", "~": "overflow", "^": "truncated"}
"""Mark after a cell -> the column that counts its cause."""


@dataclass(frozen=True)
class CellFormat:
    """The measures that one cell of a table shows."""

    title: str
    measures: tuple[tuple[str, str], ...]
    """Column and format of its figure, in order."""

    def with_measures(self, names: Sequence[str]) -> CellFormat:
        """Return the format with the measures of installed packages added."""
        return CellFormat(" / ".join((self.title, *names)), (*self.measures, *((name, "5.1f") for name in names)))


MULTIPLE_CHOICE = CellFormat("acc % / ps", (("acc", ".1f"), ("ps", "4.1f")))
VERDICTS = (("aggregate", ".0f"), ("category", ".0f"), ("suggestion", ".0f"))
CALLS = (*MULTIPLE_CHOICE.measures, ("share_unparsable", "4.1f"))
FORMATS = {
    "oeg": CellFormat("open-ended, either / category / suggestion %", VERDICTS),
    "oeg-multi": replace(MULTIPLE_CHOICE, title="open-ended over several turns, acc % / ps"),
    "tools": CellFormat("tool calls, acc % / ps / malformed % of turns", CALLS),
}
"""Protocol -> its format, if that is not ``MULTIPLE_CHOICE``."""


def result_tables(rows: pl.DataFrame) -> Iterator[Table]:
    """Yield a table for each condition and protocol, in the paper's order."""
    rows = rows.with_columns(missing_episodes(rows.columns).alias("lacking"))
    if "decision_map" in rows.columns:  # a decision map has no accuracy
        rows = rows.filter(~pl.col("decision_map"))
    rows = rows.filter(~_is_unscored(rows.columns))
    for (condition, protocol), part in _sort(rows).group_by(["condition", "protocol"], maintain_order=True):
        cell_format = FORMATS.get(str(protocol), MULTIPLE_CHOICE)
        yield _table(part, str(condition), cell_format.with_measures(measure_names(rows.columns)))


def _is_unscored(names: Sequence[str]) -> pl.Expr:
    """Return an expression for cells with neither scored nor judged episodes, such as those of operating curves."""
    answered = pl.col("answered").fill_null(0) if "answered" in names else pl.lit(0)
    return (pl.col("scored") == 0) & (answered == 0) & (pl.col("finished") > pl.col("errors"))


def _sort(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort models as the registry lists them, conditions as the paper does; others come last, by name."""
    condition, model = rank_of("condition", CONDITIONS), rank_of("model", registry())
    return rows.sort(condition, "condition", "protocol", model, "model", "scenario")


def _table(rows: pl.DataFrame, condition: str, cell_format: CellFormat) -> Table:
    scenarios = in_paper_order(rows["scenario"])
    lines = []
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        cells = scenario_cells(part, scenarios, lambda row: _format_row(row, cell_format))
        lines.append(line(str(model), [*cells, _average(part, cell_format)]))
    title = f"{condition}: {cell_format.title}{_without_verdict(rows)}"
    return Table(condition, title, columns("model", [*scenarios, "avg"]), tuple(lines), rows, notes=_notes(rows))


def _without_verdict(rows: pl.DataFrame) -> str:
    """Return the judges' names and the number of answers without a verdict."""
    if "judged" not in rows.columns or not rows["answered"].sum():
        return ""
    judges = ", ".join(rows["judge"].drop_nulls().unique().sort()) or "nobody"
    answered = int(rows["answered"].sum())
    unjudged = answered - int(rows["judged"].sum())
    return f" (by {judges}; {unjudged:,} of {answered:,} answers without a verdict)"


def _notes(rows: pl.DataFrame) -> tuple[str, ...]:
    """Return notes that name the cells with unanswered episodes and with episodes that a limit cut short."""
    meanings = {name: f"{reason}, and counted as not right" for name, reason in CUT_SHORT_REASONS.items()}
    meanings["errors"] = "without an answer, left out of all measures"
    return tuple(note for mark, name in MARKS.items() for note in _name_cells(rows, name, f"{mark} {meanings[name]}"))


def _name_cells(rows: pl.DataFrame, column: str, meaning: str) -> Iterator[str]:
    """Yield one note with the first cells that have episodes in this column, with their counts and bounds of accuracy."""
    if (affected := rows.filter(pl.col(column) > 0)).is_empty():
        return
    names = [_name_cell(row, column) for row in affected.head(MOST_CELLS).iter_rows(named=True)]
    if affected.height > MOST_CELLS:
        names.append(f"and {pluralize(affected.height - MOST_CELLS, 'more cell')}")
    yield f"{meaning}: {', '.join(names)}"


def _name_cell(row: Row, column: str) -> str:
    bound = f" (acc at most {row['acc_bound']:.1f})" if column in CUT_SHORT else ""
    return f"{row['model']}/{row['scenario']} {row[column]:,}{bound}"


def _format_row(row: Row, cell_format: CellFormat) -> TableCell:
    marks = "".join(mark for mark, column in MARKS.items() if row.get(column))
    if row.get(cell_format.measures[0][0]) is None:
        return TableCell(progress_text(row) + marks)
    text = _join_measures([row[name] for name, _ in cell_format.measures], cell_format)
    if row["lacking"]:
        finished = f"({row['planned'] - row['lacking']}/{row['planned']})"
        return TableCell(f"{text} {finished}{marks}", style="unfinished")
    return TableCell(text + marks)


def _average(part: pl.DataFrame, cell_format: CellFormat) -> TableCell:
    first = cell_format.measures[0][0]
    if part["lacking"].sum():
        return TableCell("unfinished")
    if first not in part.columns or part[first].null_count():
        return MISSING
    return TableCell(_join_measures([part[name].mean() for name, _ in cell_format.measures], cell_format))


def _join_measures(values: Sequence[object], cell_format: CellFormat) -> str:
    pairs = zip(values, cell_format.measures, strict=True)
    return " /".join("-" if value is None else format(value, digits) for value, (_, digits) in pairs)
