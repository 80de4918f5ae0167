"""The Parquet schemas of the stored tables, derived from the row types in ``actors.playing.rows``.

A column has the name, position and type of the row's field. Stored parts are compared with these schemas.
"""

from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import polars as pl

from actors.playing.rows import EpisodeRow, Int32, OptionRow, TurnRow, VerdictRow

COLUMN_TYPES: dict[Any, type[pl.DataType]] = {
    str: pl.String, int: pl.Int64, Int32: pl.Int32, float: pl.Float64, bool: pl.Boolean,
}  # fmt: skip
"""Column type per field type; all columns may hold nulls."""
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""Errors of polars for a file that is absent or not valid Parquet."""


def schema(row: type[tuple[Any, ...]]) -> pl.Schema:
    """Return the schema of a table of such rows. Raises KeyError for a field type without a column type."""
    hints = get_type_hints(row, include_extras=True)
    return pl.Schema({name: COLUMN_TYPES[_without_none(hint)] for name, hint in hints.items()})


def _without_none(hint: Any) -> Any:
    """Return ``str`` for ``str | None``, and other types unchanged."""
    if get_origin(hint) in (None, Annotated):
        return hint
    (field_type,) = (choice for choice in get_args(hint) if choice is not NoneType)
    return field_type


EPISODES, TURNS, OPTIONS, VERDICTS = map(schema, (EpisodeRow, TurnRow, OptionRow, VerdictRow))
PAIRED = {"episodes": EPISODES, "turns": TURNS}
"""The two tables of which every part has a file."""
TABLES = {**PAIRED, "options": OPTIONS}
"""All tables of episodes; a part has a file in ``options`` only if it holds an episode of ``every-state``."""

ADDED_COLUMNS = ("cached_tokens", "pictures", "cached_pictures", "read_as", "judged", "strict_", "thoughts")
"""Prefixes of the columns that earlier versions did not store; they are read as nulls."""


def earlier_schema(current: pl.Schema) -> pl.Schema:
    """Return the schema of a table before it had the added columns."""
    return pl.Schema({name: kind for name, kind in current.items() if not name.startswith(ADDED_COLUMNS)})
