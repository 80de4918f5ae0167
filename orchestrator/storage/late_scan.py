"""Lazy frames over files that a writer may merge and delete: the files are listed when the frame is collected.

A file that disappears between listing and reading is no error: its replacement exists and is found by listing again.
"""

from collections.abc import Callable, Iterator

import polars as pl
from polars.io.plugins import register_io_source

TRIES = 10
"""Attempts to list and read the files; merges are seconds apart, so a file that is missing every time is an error."""


def late_scan(schema: pl.Schema, scan: Callable[[], pl.LazyFrame]) -> pl.LazyFrame:
    """Return a lazy frame that calls ``scan()`` when it is collected; columns and predicates are pushed down."""

    def rows(
        columns: list[str] | None, predicate: pl.Expr | None, count: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        yield _collect(lambda: _push_down(scan(), columns, predicate, count))

    return register_io_source(rows, schema=schema)


def _push_down(
    frame: pl.LazyFrame, columns: list[str] | None, predicate: pl.Expr | None, count: int | None
) -> pl.LazyFrame:
    frame = frame if count is None else frame.head(count)
    frame = frame if predicate is None else frame.filter(predicate)
    return frame if columns is None else frame.select(columns)


def _collect(scan: Callable[[], pl.LazyFrame]) -> pl.DataFrame:
    for _ in range(TRIES - 1):
        try:
            return scan().collect()
        except FileNotFoundError:
            continue
    return scan().collect()
