"""The paper's tables on a terminal: models x scenarios, acc and ps side by side, or what a judge found; the mean last.

A cell that is not complete shows how far it is; an error is never shown as a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.table import Table

from envs import SCENARIOS
from sweeps.conditions import CONDITIONS
from sweeps.load import registry

WIDTH = 128
"""Columns that the widest table needs; a narrower terminal wraps it rather than losing digits."""


def tables(rows: pl.DataFrame) -> Iterator[Table]:
    """One table a condition (and protocol), in the order of the rows' first appearance in the paper's list."""
    for (condition, protocol), part in _in_order(rows).group_by(["condition", "protocol"], maintain_order=True):
        yield _table(part, str(condition), OPEN_ENDED if protocol == "oeg" else CHOICE)


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


CHOICE = Shape("acc % / ps", (("acc", ".1f"), ("ps", "4.1f")))
OPEN_ENDED = Shape(
    "open-ended, either / category / suggestion %", (("aggregate", ".0f"), ("category", ".0f"), ("suggestion", ".0f"))
)


def _table(rows: pl.DataFrame, condition: str, shape: Shape) -> Table:
    scenarios = [name for name in SCENARIOS if name in set(rows["scenario"])]
    table = Table(
        title=f"{condition}: {shape.title}{_unread(rows)}", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("model", no_wrap=True)
    for name in [*scenarios, "avg"]:
        table.add_column(name, justify="right", no_wrap=True)
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        found = {row["scenario"]: row for row in part.iter_rows(named=True)}
        cells = [_cell(found.get(name), shape) for name in scenarios]
        table.add_row(str(model), *cells, _average(part, shape))
    return table


def _unread(rows: pl.DataFrame) -> str:
    """How many answers have no verdict, and whose verdicts these are."""
    if "judged" not in rows.columns or not rows["answered"].sum():
        return ""
    judges = ", ".join(rows["judge"].drop_nulls().unique().sort()) or "nobody"
    without = int(rows["answered"].sum() - rows["judged"].sum())
    return f" (by {judges}; {without:,} of {rows['answered'].sum():,} answers without a verdict)"


def _cell(row: dict[str, object] | None, shape: Shape) -> str:
    if row is None:
        return "-"
    if row.get(shape.measures[0][0]) is None:
        return f"0/{row['planned']}"
    text = _written([row[name] for name, _ in shape.measures], shape)
    if row["finished"] != row["planned"]:
        return f"[dim]{text} ({row['finished']}/{row['planned']})[/]"
    return text


def _average(part: pl.DataFrame, shape: Shape) -> str:
    first = shape.measures[0][0]
    if first not in part.columns or part[first].null_count() or (part["finished"] < part["planned"]).any():
        return "unfinished"
    return _written([part[name].mean() for name, _ in shape.measures], shape)


def _written(values: Sequence[object], shape: Shape) -> str:
    return " /".join(format(value, digits) for value, (_, digits) in zip(values, shape.measures, strict=True))
