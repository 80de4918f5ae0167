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

    def read(columns: list[str] | None, predicate: pl.Expr | None, count: int | None) -> pl.DataFrame:
        frame = scan() if count is None else scan().head(count)
        frame = frame if predicate is None else frame.filter(predicate)
        return (frame if columns is None else frame.select(columns)).collect()

    def rows(
        columns: list[str] | None, predicate: pl.Expr | None, count: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for left in reversed(range(TRIES)):
            try:
                yield read(columns, predicate, count)
                return
            except FileNotFoundError:
                if not left:
                    raise

    return register_io_source(rows, schema=schema)
