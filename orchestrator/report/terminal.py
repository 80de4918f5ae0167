"""The paper's table on a terminal: models x scenarios, acc and ps side by side, the mean of the seven at the end.

A cell that is not complete shows how far it is; an error is never shown as a zero.
"""

from __future__ import annotations

from collections.abc import Iterator

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
        yield _table(part, f"{condition}" + ("" if protocol == "mcqa" else f" ({protocol})"))


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Models as the registry lists them, conditions as the paper does; what is not listed comes last, by name."""
    places = {"model": list(registry()), "condition": list(CONDITIONS)}
    ranks = [
        pl.col(column).replace_strict({name: n for n, name in enumerate(names)}, default=len(names)).alias(f"_{column}")
        for column, names in places.items()
    ]
    ordered = rows.with_columns(ranks).sort("_condition", "condition", "protocol", "_model", "model", "scenario")
    return ordered.drop("_condition", "_model")


def _table(rows: pl.DataFrame, title: str) -> Table:
    scenarios = [name for name in SCENARIOS if name in set(rows["scenario"])]
    table = Table(title=f"{title}: acc % / ps", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    for name in [*scenarios, "avg"]:
        table.add_column(name, justify="right", no_wrap=True)
    for (model,), part in rows.group_by(["model"], maintain_order=True):
        found = {row["scenario"]: row for row in part.iter_rows(named=True)}
        cells = [_cell(found.get(name)) for name in scenarios]
        table.add_row(str(model), *cells, _average(part))
    return table


def _cell(row: dict[str, object] | None) -> str:
    if row is None:
        return "-"
    if row["acc"] is None:
        return f"0/{row['planned']}"
    text = f"{row['acc']:.1f} /{row['ps']:>4.1f}"
    return text if row["finished"] == row["planned"] else f"[dim]{text} ({row['finished']}/{row['planned']})[/]"


def _average(part: pl.DataFrame) -> str:
    if part["acc"].null_count() or (part["finished"] < part["planned"]).any():
        return "unfinished"
    return f"{part['acc'].mean():.1f} /{part['ps'].mean():>4.1f}"
