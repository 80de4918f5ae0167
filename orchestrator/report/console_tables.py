"""The paper's tables on a terminal: models x scenarios, acc and ps side by side, or what a judge found; the mean last.

A cell that is not complete shows how far it is; an error is never shown as a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from envs import in_order
from envs.types import CUT_SHORT
from orchestrator.report import own_measures
from orchestrator.report.decision_map import MAP
from orchestrator.report.escaping import Grid
from orchestrator.report.metrics import CUT, lacking
from orchestrator.report.wording import counted
from sweeps.conditions import CONDITIONS
from sweeps.load import registry

SHOWN = 6
"""Cells that a note under a table names."""


def tables(rows: pl.DataFrame) -> Iterator[Table]:
    """One table a condition (and protocol), in the order of the rows' first appearance in the paper's list."""
    rows = rows.with_columns(lacking(rows.columns).alias("lacking"))
    if MAP in rows.columns:  # a decision map has no accuracy
        rows = rows.filter(~pl.col(MAP))
    for (condition, protocol), part in _in_order(rows).group_by(["condition", "protocol"], maintain_order=True):
        shape = {"oeg": OPEN_ENDED, "oeg-multi": SEVERAL_TURNS, "tools": TOOL_CALLS}.get(str(protocol), CHOICE)
        yield _table(part, str(condition), shape.beside(own_measures.names(rows.columns)))


def paired(grid: Grid) -> Table:
    """What conditions change (``report.evidence_tables.paired``), models alone; where only baselines were played, these."""
    shown = grid.rows[: grid.ranked] or grid.rows
    folded = counted(len(grid.rows) - len(shown), "row")
    caption = f"{folded} of baselines: tables/{grid.name}.md" if len(shown) < len(grid.rows) else None
    table = Table(
        title=escape(grid.title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0),
        caption=caption, caption_justify="left",
    )  # fmt: skip
    table.add_column("model, condition", no_wrap=True)
    for name in grid.columns:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for name, entries in shown:
        table.add_row(escape(name), *(escape(entry.text) for entry in entries))
    return table


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Models as the registry lists them, conditions as the paper does; what is not listed comes last, by name."""
    places = {"model": list(registry()), "condition": list(CONDITIONS)}
    ranks = [
        pl.col(column).replace_strict({name: n for n, name in enumerate(names)}, default=len(names)).alias(f"_{column}")
        for column, names in places.items()
    ]
    ordered = rows.with_columns(ranks).sort("_condition", "condition", "protocol", "_model", "model", "scenario")
    return ordered.drop("_condition", "_model")


@dataclass(frozen=True)
class Shape:
    """What one entry of a table shows."""

    title: str
    measures: tuple[tuple[str, str], ...]
    """Column and how its figure is written, in order."""

    def beside(self, names: Sequence[str]) -> Shape:
        """The same with the measures of installed packages behind its own."""
        return Shape(" / ".join((self.title, *names)), (*self.measures, *((name, "5.1f") for name in names)))


CHOICE = Shape("acc % / ps", (("acc", ".1f"), ("ps", "4.1f")))
SEVERAL_TURNS = replace(CHOICE, title="open-ended over several turns, acc % / ps")
TOOL_CALLS = Shape(
    "tool calls, acc % / ps / malformed % of turns",
    (("acc", ".1f"), ("ps", "4.1f"), ("share_unparsable", "4.1f")),
)
OPEN_ENDED = Shape(
    "open-ended, either / category / suggestion %", (("aggregate", ".0f"), ("category", ".0f"), ("suggestion", ".0f"))
)


def _table(rows: pl.DataFrame, condition: str, shape: Shape) -> Table:
    scenarios = in_order(rows["scenario"])
    table = Table(
        title=escape(f"{condition}: {shape.title}{_unread(rows)}"), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0),
        caption=_unanswered(rows), caption_justify="left",
    )  # fmt: skip
    table.add_column("model", no_wrap=True)
    for name in [*scenarios, "avg"]:
        table.add_column(name, justify="right", no_wrap=True)
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        found = {row["scenario"]: row for row in part.iter_rows(named=True)}
        cells = [_cell(found.get(name), shape) for name in scenarios]
        table.add_row(escape(str(model)), *cells, _average(part, shape))
    return table


def _unread(rows: pl.DataFrame) -> str:
    """How many answers have no verdict, and whose verdicts these are."""
    if "judged" not in rows.columns or not rows["answered"].sum():
        return ""
    judges = ", ".join(rows["judge"].drop_nulls().unique().sort()) or "nobody"
    answered = int(rows["answered"].sum())
    without = answered - int(rows["judged"].sum())
    return f" (by {judges}; {without:,} of {answered:,} answers without a verdict)"


def _unanswered(rows: pl.DataFrame) -> str | None:
    """Which cells have episodes without an answer, or that a limit cut short."""
    notes = [
        *_named(rows, "errors", "! without an answer, and in no measure"),
        *_named(rows, "overflow", f"~ {CUT['overflow']}, and counted as not right"),
        *_named(rows, "truncated", f"^ {CUT['truncated']}, and counted as not right"),
    ]
    return escape("\n".join(notes)) or None


def _named(rows: pl.DataFrame, column: str, said: str) -> Iterator[str]:
    """One line that names the first few cells which have such episodes, with their counts and the bound they leave."""
    if column not in rows.columns or (bad := rows.filter(pl.col(column) > 0)).is_empty():
        return
    named = [_counted(row, column) for row in bad.head(SHOWN).iter_rows(named=True)]
    more = [f"and {counted(bad.height - SHOWN, 'more cell')}"] if bad.height > SHOWN else []
    yield f"{said}: {', '.join([*named, *more])}"


def _counted(row: dict[str, Any], column: str) -> str:
    bound = f" (acc at most {row['acc_bound']:.1f})" if column in CUT_SHORT else ""
    return f"{row['model']}/{row['scenario']} {row[column]:,}{bound}"


def _cell(row: dict[str, Any] | None, shape: Shape) -> str:
    if row is None:
        return "-"
    marks = {"!": "errors", "~": "overflow", "^": "truncated"}
    mark = "".join(mark for mark, column in marks.items() if row.get(column))
    if row.get(shape.measures[0][0]) is None:
        return f"{row['finished']}/{row['planned']}{mark}"
    text = _written([row[name] for name, _ in shape.measures], shape)
    if row["lacking"]:
        return f"[dim]{text} ({row['planned'] - row['lacking']}/{row['planned']}){mark}[/]"
    return text + mark


def _average(part: pl.DataFrame, shape: Shape) -> str:
    first = shape.measures[0][0]
    if part["lacking"].sum():
        return "unfinished"
    if first not in part.columns or part[first].null_count():
        return "-"
    return _written([part[name].mean() for name, _ in shape.measures], shape)


def _written(values: Sequence[object], shape: Shape) -> str:
    shown = zip(values, shape.measures, strict=True)
    return " /".join("-" if value is None else format(value, digits) for value, (_, digits) in shown)
