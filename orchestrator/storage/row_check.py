"""Builds frames from buffered rows and sets aside the rows that do not fit the schema.

A row that cannot be stored goes to ``damaged/rows.jsonl`` with its reason and is pending again; all other rows are stored.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from actors.playing.records import Columns
from actors.text.printable import one_line
from orchestrator.storage import safe_write
from orchestrator.storage.schemas import TABLES

FILE = "damaged/rows.jsonl"
MAX_CHARS = 2000
"""Most characters that are recorded of a row that cannot be stored."""
UNSTORABLE = (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""Errors of polars for a value that a column cannot hold."""

log = logging.getLogger(__name__)


def make_frames(
    folder: Path, tables: Mapping[str, Columns], schemas: Mapping[str, pl.Schema]
) -> dict[str, pl.DataFrame]:
    """Return one frame per table; a key with a row that cannot be stored is left out of all of them."""
    try:
        return {name: _make_frame(columns, schemas[name]) for name, columns in tables.items()}
    except UNSTORABLE:
        bad: dict[Any, dict[str, str]] = {}
        for name, columns in tables.items():
            bad |= _rejected_rows(name, columns, schemas[name])
        _set_aside(folder, bad)
        return {name: _make_frame(_without_keys(columns, bad), schemas[name]) for name, columns in tables.items()}


def _rejected_rows(table: str, columns: Columns, schema: pl.Schema) -> dict[Any, dict[str, str]]:
    """Return the description of each row that cannot be stored, by its key."""
    rejected = {}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        try:
            _make_frame({name: [value] for name, value in row.items()}, schema)
        except UNSTORABLE as problem:
            why = {"reason": one_line(str(problem))[:MAX_CHARS], "row": one_line(repr(row))[:MAX_CHARS]}
            rejected[row["key"]] = {"table": table, "key": str(row["key"]), **why}
    return rejected


def _set_aside(folder: Path, bad: Mapping[Any, Mapping[str, str]]) -> None:
    path = folder / FILE
    safe_write.make_folder(path.parent)
    safe_write.append(path, "".join(json.dumps(line) + "\n" for line in bad.values()).encode())
    for line in bad.values():
        log.error("a row of %(table)s of %(key)s cannot be stored and is set aside: %(reason)s", line)
    log.error("%d rows are in %s; their episodes are pending again", len(bad), path)


def _without_keys(columns: Columns, bad: Mapping[Any, object]) -> Columns:
    keep = [key not in bad for key in columns["key"]]
    return {
        name: [value for value, storable in zip(values, keep, strict=True) if storable]
        for name, values in columns.items()
    }


def _make_frame(columns: Columns, schema: pl.Schema) -> pl.DataFrame:
    try:
        return pl.DataFrame(columns, schema=schema)
    except UnicodeEncodeError:  # a reply may hold a lone surrogate (half a character), which UTF-8 cannot encode
        clean = {name: [_replace_surrogates(value) for value in values] for name, values in columns.items()}
        return pl.DataFrame(clean, schema=schema)


def _replace_surrogates(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def check_columns(tables: dict[str, Columns]) -> set[str]:
    """Return the keys of a batch; raises ValueError for wrong columns or lengths, or a duplicate episode."""
    for table, expected in TABLES.items():
        columns = tables[table]
        if columns.keys() != expected.keys():
            raise ValueError(f"{table} must have the columns {', '.join(expected)}, not {', '.join(columns)}")
        if len({len(values) for values in columns.values()}) > 1:
            raise ValueError(f"the columns of {table} differ in length")
    keys = set(tables["episodes"]["key"])
    if len(keys) < len(tables["episodes"]["key"]):
        raise ValueError("a batch holds an episode twice")
    return keys
