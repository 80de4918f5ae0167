"""Lazy frames over files that a writer may merge and delete meanwhile: they are listed when the frame is collected.

A file that goes between the listing and its reading is no error: what replaced it is there before, and is listed then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl
from polars.io.plugins import register_io_source

TRIES = 10
"""Listings after which a file that is gone is an error: merges are seconds apart at least."""


def late_scan(schema: pl.Schema, scan: Callable[[], pl.LazyFrame]) -> pl.LazyFrame:
    """A frame of this schema whose rows are those of ``scan()`` when it is collected; what is asked of it is asked there."""

    def rows(
        columns: list[str] | None, predicate: pl.Expr | None, count: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        yield _collected(lambda: _asked(scan(), columns, predicate, count))

    return register_io_source(rows, schema=schema)


def _asked(
    frame: pl.LazyFrame, columns: list[str] | None, predicate: pl.Expr | None, count: int | None
) -> pl.LazyFrame:
    frame = frame if count is None else frame.head(count)
    frame = frame if predicate is None else frame.filter(predicate)
    return frame if columns is None else frame.select(columns)


def _collected(frame: Callable[[], pl.LazyFrame]) -> pl.DataFrame:
    for _ in range(TRIES - 1):
        try:
            return frame().collect()
        except FileNotFoundError:
            continue
    return frame().collect()
