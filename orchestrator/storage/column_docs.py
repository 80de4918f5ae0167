"""The documentation of every stored column, read from the row types: ``ls columns`` prints it, Parquet files carry it."""

import ast
import inspect
import json
import textwrap
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_type_hints

from actors.playing.rows import EpisodeRow, OptionRow, TurnRow, VerdictRow
from envs.types import Action, Ending, Move, Verdict
from orchestrator.storage.schemas import schema
from sweeps.spec import Protocol

ROWS: dict[str, type[tuple[Any, ...]]] = {
    "episodes": EpisodeRow,
    "turns": TurnRow,
    "options": OptionRow,
    "verdicts": VerdictRow,
}
"""Stored table -> the type of its rows."""
METADATA = "proactive_sweep.columns"
"""The key of a Parquet file's metadata that holds column -> description, as JSON."""
VALUES: dict[tuple[str, str], type[StrEnum]] = {
    ("EpisodeRow", "ending"): Ending,
    ("EpisodeRow", "protocol"): Protocol,
    ("TurnRow", "option"): Verdict,
    ("TurnRow", "category"): Verdict,
    ("TurnRow", "action"): Action,
    ("TurnRow", "move"): Move,
}
"""Row type and column -> the values that it may have."""


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


def column_docs(row: type[tuple[Any, ...]]) -> list[ColumnDoc]:
    """Return the columns of a row type in order, each with the docstring under its field."""
    meanings, hints = _field_docstrings(row), get_type_hints(row)
    return [
        ColumnDoc(
            name,
            str(kind),
            NoneType in get_args(hints[name]),
            tuple(value.value for value in VALUES.get((row.__name__, name), ())),
            meanings.get(name, ""),
        )
        for name, kind in schema(row).items()
    ]


def parquet_metadata(row: type[tuple[Any, ...]]) -> dict[str, str]:
    """Return the metadata of a Parquet file of such rows."""
    return {METADATA: json.dumps({column.column: column.meaning for column in column_docs(row)})}


def _field_docstrings(row: type[tuple[Any, ...]]) -> dict[str, str]:
    """Return field -> the string literal under it, in one line; its code is needed, because Python drops the literals."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(row))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(literal.value.value.replace("``", "").split())
        for field, literal in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(literal, ast.Expr)
        and isinstance(literal.value, ast.Constant)
        and isinstance(literal.value.value, str)
    }
