"""The Parquet schema of a table, derived from its row type in ``actors.playing.records``.

A column has the name, position and type of the row's field. Stored parts are compared with it.
"""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import polars as pl

from actors.playing.records import Int32

KINDS: dict[Any, type[pl.DataType]] = {
    str: pl.String, int: pl.Int64, Int32: pl.Int32, float: pl.Float64, bool: pl.Boolean,
}  # fmt: skip
"""Column type per field type; all columns may hold nulls."""


def schema(row: type[tuple[Any, ...]]) -> pl.Schema:
    """Return the schema of a table of such rows. Raises KeyError for a field type without a column type."""
    hints = get_type_hints(row, include_extras=True)
    return pl.Schema({name: KINDS[_without_none(hint)] for name, hint in hints.items()})


def _without_none(hint: Any) -> Any:
    """Return ``str`` for ``str | None``, and other types unchanged."""
    if get_origin(hint) in (None, Annotated):
        return hint
    (kind,) = (choice for choice in get_args(hint) if choice is not NoneType)
    return kind
