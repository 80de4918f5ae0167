"""The Parquet schemas of the stored tables and the documentation of their columns, read from ``actors.playing.rows``.

A column has the name, position and type of the row's field. Stored parts are compared with these schemas, and carry the
documentation, which ``ls columns`` prints.
"""

import ast
import inspect
import logging
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import EnumType
from itertools import pairwise
from types import NoneType
from typing import Any, get_args, get_type_hints

import polars as pl

from actors.playing.rows import EpisodeRow, Int32, OptionRow, TurnRow, VerdictRow
from actors.text.printable import one_line

log = logging.getLogger(__name__)
RowType = type[tuple[Any, ...]]
ROWS: dict[str, RowType] = {"episodes": EpisodeRow, "turns": TurnRow, "options": OptionRow, "verdicts": VerdictRow}
"""Stored table -> the type of its rows."""
METADATA = "proactive_sweep.columns"
"""The key of a Parquet file's metadata that holds column -> description, as JSON."""
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""Errors of polars for a file that is absent or not valid Parquet."""


def schema(row: RowType) -> pl.Schema:
    """Return the schema of a table of such rows; all columns may hold nulls. Raises TypeError for an unknown field type."""
    hints, kinds = get_type_hints(row, include_extras=True), get_type_hints(row)
    return pl.Schema({n: pl.Int32 if hints[n] in (Int32, Int32 | None) else kind for n, kind in kinds.items()})


EPISODES, TURNS, OPTIONS, VERDICTS = map(schema, (EpisodeRow, TurnRow, OptionRow, VerdictRow))
TABLES = {"episodes": EPISODES, "turns": TURNS, "options": OPTIONS}
"""The tables of episodes; a part has a file in ``options`` only if it holds an episode of ``every-state``."""

ADDED_COLUMNS = ("cached_tokens", "pictures", "cached_pictures", "read_as", "judged", "note", "strict_", "thoughts")
"""Prefixes of the columns that earlier versions did not store; they are read as nulls."""


def is_schema_of(stored: pl.Schema, current: pl.Schema) -> bool:
    """Return True if a part has the current columns, or those of an earlier version that lacks some of the added ones."""
    known = {n: kind for n, kind in current.items() if n in stored or not n.startswith(ADDED_COLUMNS)}
    return stored == pl.Schema(known)


@dataclass(frozen=True, slots=True)
class ColumnDoc:
    """One column of a table."""

    column: str
    type: str
    """The type of polars, such as ``String``."""
    nullable: bool
    values: tuple[str, ...]
    """The only values that it may have; empty if any may occur."""
    meaning: str


def column_docs(row: RowType) -> list[ColumnDoc]:
    """Return the columns of a row type in order, each with the docstring under its field or the same field of ``EpisodeRow``."""
    meanings, kinds = _field_docstrings(EpisodeRow) | _field_docstrings(row), get_type_hints(row)
    hints = get_type_hints(row, include_extras=True)
    docs = []
    for name, kind in schema(row).items():
        notes = getattr(hints[name], "__metadata__", ())
        values = tuple(text for note in notes if isinstance(note, EnumType) for text in map(str, note))
        docs.append(ColumnDoc(name, str(kind), NoneType in get_args(kinds[name]), values, meanings.get(name, "")))
    return docs


def _field_docstrings(row: RowType) -> dict[str, str]:
    """Return field -> the string literal under it, in one line; read from the source, because Python drops the literals."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(row))).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for pair in pairwise(definition.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = " ".join(text.replace("``", "").split())
    return texts


def make_frame(columns: Mapping[str, Sequence[Any]], schema: pl.Schema, strict: bool = True) -> pl.DataFrame:
    """Return a table's frame. Half a character, which a reply may end with, is replaced; a value that does not fit is null."""
    try:
        return pl.DataFrame(columns, schema=schema, strict=strict)
    except UnicodeEncodeError:
        clean = {
            name: [text.encode("utf-8", "replace").decode() if isinstance(text, str) else text for text in values]
            for name, values in columns.items()
        }
        return make_frame(clean, schema, strict)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as problem:
        if not strict:
            raise
        log.error("a value that does not fit its column is stored as null: %s", one_line(str(problem))[:300])
        return make_frame(columns, schema, strict=False)
