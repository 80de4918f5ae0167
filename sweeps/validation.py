"""Validates tables of a sweep file by their types; an error is one sentence with the key and the closest match."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from envs.installed import missing_extra
from sweeps.conditions import Condition
from sweeps.model import STAGES
from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError

REMOVED = {
    **dict.fromkeys(("batch", "batch_prompt_price", "batch_reply_price"), "0.2.0 was the last with the Batch API"),
    "ranking": "0.2.0 was the last that stopped models by rank",
}
"""Key of an earlier release -> the release that last had it, or the package that has it now."""

LONGEST_VALUE = 200
"""Most characters of a wrong value that an error repeats."""
Table = TypeVar("Table", bound=BaseModel)
Entry = TypeVar("Entry", ModelSpec, Condition)


def drop_removed(table: Any) -> Any:
    """Return a stored table without the keys of ``REMOVED`` and ``STAGES``, which older versions wrote into run folders."""
    if isinstance(table, list):
        return [drop_removed(entry) for entry in table]
    if not isinstance(table, dict):
        return table
    own_option = type(table.get("batch")) is int  # of transformers
    gone = {*REMOVED, STAGES} - ({"batch"} if own_option else set())
    return {key: drop_removed(value) for key, value in table.items() if key not in gone}


def validate_table(table_type: type[Table], fields: Mapping[str, Any], where: str) -> Table:
    """Return the fields of a table as a value of its type; raises SweepError with the first error."""
    try:
        return table_type(**fields)
    except ValidationError as problem:
        raise SweepError(f"{where}: {describe_error(problem, table_type)}") from None


def read_named_tables(
    tables: Iterable[Mapping[str, Any]], kind: str, where: str, read_table: Callable[[Mapping[str, Any], str], Entry]
) -> dict[str, Entry]:
    """Return name -> entry of all ``[[kind]]`` tables; raises SweepError."""
    entries: dict[str, Entry] = {}
    for number, table in enumerate(tables, 1):
        entry = read_table(table, f"{where}: {kind} {number}")
        if entry.name in entries:
            raise SweepError(f"{where}: two [[{kind}]] tables have the name {entry.name!r}; give each a different name")
        entries[entry.name] = entry
    return entries


def find_name(name: Any, names: Mapping[str, Any], kind: str, where: str) -> str:
    """Return the name if it is among ``names``; raises SweepError with the closest match."""
    if isinstance(name, str) and name in names:
        return name
    close = get_close_matches(str(name), list(names), n=1)
    listing = f"did you mean {close[0]!r}?" if close else f"`proactive-sweep ls {kind}s` lists them"
    raise SweepError(f"{where}: there is no {kind} {name!r}; {missing_extra(str(name)) or listing}")


def describe_error(problem: ValidationError, table_type: type[BaseModel]) -> str:
    """Return the first error of a table: its key, the value, and what to write instead."""
    first = problem.errors()[0]
    key, last = ".".join(map(str, first["loc"])), str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        if last in REMOVED:
            return f"{key!r} is gone: {REMOVED[last]}; leave it out"
        keys = _list_keys(table_type)
        close = get_close_matches(last, [name.rpartition(".")[2] for name in keys], n=1)
        candidates = [name for name in keys if name.rpartition(".")[2] in close]
        nearest = get_close_matches(key, candidates, n=1, cutoff=0.0)
        return f"unknown key {key!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")
    if first["type"] == "missing":
        return f"{key!r} is missing"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    if first["type"] == "model_type":
        message = "must be a table"
    if first["type"] == "tuple_type":
        message = f"must be a list of tables, [[{key}]]" if key in ("model", "condition", "only") else "must be a list"
    value = f" = {repr(first['input'])[:LONGEST_VALUE]}" if not isinstance(first["input"], BaseModel) else ""
    return (f"{key}{value}: " if key else "") + message[0].lower() + message[1:]


def _list_keys(table_type: type[BaseModel]) -> list[str]:
    """Return the keys of a table and, after its name and a dot, those of each table in it that has defaults."""
    keys = list(table_type.model_fields)
    for name, field in table_type.model_fields.items():
        if isinstance(field.default, BaseModel):
            keys += [f"{name}.{key}" for key in _list_keys(type(field.default))]
    return keys
