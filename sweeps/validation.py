"""Validates tables and names of a sweep file; an error is one sentence with the key and the closest match."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from envs.installed import missing_extra
from sweeps.conditions import Condition
from sweeps.model import STAGES
from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError

REMOVED = {
    **dict.fromkeys(("batch", "batch_prompt_price", "batch_reply_price"), "0.2.0 was the last with the Batch API"),
    STAGES: "0.2.0 was the last with pipeline stages",
}
"""Key of an earlier release -> the release that last had it, or the package that has it now."""


def drop_removed(table: Any) -> Any:
    """Return a stored table without the keys of ``REMOVED``, which older versions wrote into every run folder."""
    if isinstance(table, list):
        return [drop_removed(entry) for entry in table]
    if not isinstance(table, dict):
        return table
    return {key: drop_removed(value) for key, value in table.items() if key not in REMOVED}


Table = TypeVar("Table", bound=BaseModel)
Entry = TypeVar("Entry", ModelSpec, Condition)


def validate_table(table_type: type[Table], fields: Mapping[str, Any], where: str) -> Table:
    """Return the fields of a table as a value of its type; raises SweepError with the first error."""
    try:
        return table_type(**fields)
    except ValidationError as problem:
        raise SweepError(f"{where}: {_describe_error(problem, table_type)}") from None


def require_tables(value: Any, message: str) -> list[dict[str, Any]]:
    """Return a list of tables; raises SweepError with this message for anything else."""
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise SweepError(message)
    return value


def read_named_tables(
    value: Any, kind: str, where: str, read_table: Callable[[dict[str, Any], str], Entry]
) -> dict[str, Entry]:
    """Return name -> entry of all ``[[kind]]`` tables; raises SweepError."""
    tables = require_tables(value, f"{where}: {kind}s of your own are written as [[{kind}]] tables")
    entries: dict[str, Entry] = {}
    for number, table in enumerate(tables, 1):
        entry = read_table(table, f"{where}: {kind} {number}")
        if entry.name in entries:
            raise SweepError(f"{where}: two [[{kind}]] tables have the name {entry.name!r}; give each a different name")
        entries[entry.name] = entry
    return entries


def as_list(value: Any, key: str, where: str) -> list[Any]:
    """Return the list of names that a key holds, or the list of its single name; raises SweepError."""
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return [value]
    raise SweepError(f"{where}: {key} must be a list of names, not {value!r}")


def find_name(name: Any, names: Mapping[str, Any], kind: str, where: str) -> str:
    """Return the name if it is among ``names``; raises SweepError with the closest match."""
    if not isinstance(name, str):
        raise SweepError(f"{where}: a {kind} is given by its name in quotes, not by {name!r}")
    if name in names:
        return name
    close = get_close_matches(name, list(names), n=1)
    listing = f"did you mean {close[0]!r}?" if close else f"`proactive-sweep ls {kind}s` lists them"
    raise SweepError(f"{where}: there is no {kind} {name!r}; {missing_extra(name) or listing}")


def _describe_error(problem: ValidationError, table_type: type[BaseModel]) -> str:
    first = problem.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        if name := REMOVED.get(str(first["loc"][-1])):
            return f"{key!r} is gone: {name}; leave it out"
        close = _closest_key(key, _list_keys(table_type))
        return f"unknown key {key!r}" + (f"; did you mean {close!r}?" if close else "")
    if first["type"] == "missing":
        return f"{key!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    value = "" if isinstance(first["input"], BaseModel) else f" = {first['input']!r}"  # a model is written by its name
    return (f"{key}{value}: " if key else "") + message[0].lower() + message[1:]


def _closest_key(key: str, keys: Sequence[str]) -> str:
    """Return the key whose last part is closest to this one's, in any table; empty if none is close."""
    last_parts = {name: name.rpartition(".")[2] for name in keys}
    close = get_close_matches(key.rpartition(".")[2], set(last_parts.values()), n=1)
    candidates = [name for name, last in last_parts.items() if last in close]
    return get_close_matches(key, candidates, n=1, cutoff=0.0)[0] if candidates else ""


def _list_keys(table_type: type[BaseModel], prefix: str = "") -> list[str]:
    """Return every key as a sweep file writes it, those of nested tables after ``table.``; models have tables of their own."""
    keys: list[str] = []
    for name, field in table_type.model_fields.items():
        keys.append(prefix + ("protocol" if name == "protocols" else name))
        field_types = get_args(field.annotation) if isinstance(field.annotation, UnionType) else (field.annotation,)
        for nested in field_types:
            if isinstance(nested, type) and issubclass(nested, BaseModel) and nested is not ModelSpec:
                keys += _list_keys(nested, f"{prefix}{name}.")
    return keys
