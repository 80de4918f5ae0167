"""A table of a sweep file becomes a value of its type, or one sentence that names the key and what was probably meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from sweeps.spec import ModelSpec
from sweeps.sweep_file import SweepError

Shape = TypeVar("Shape", bound=BaseModel)


def validate_table(kind: type[Shape], fields: Mapping[str, Any], where: str) -> Shape:
    """The value that the fields make; raises SweepError with the first complaint."""
    try:
        return kind(**fields)
    except ValidationError as problem:
        raise SweepError(f"{where}: {_sentence(problem, kind)}") from None


def _sentence(problem: ValidationError, kind: type[Any]) -> str:
    """The first complaint, in a user's words."""
    first = problem.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) if first["loc"] else "the file"
    if first["type"] == "extra_forbidden":
        close = _close(key, _keys(kind))
        return f"unknown key {key!r}" + (f"; did you mean {close!r}?" if close else "")
    if first["type"] == "missing":
        return f"{key!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    return f"{key} = {first['input']!r}: {message[0].lower()}{message[1:]}"


def _close(key: str, known: Sequence[str]) -> str:
    """The known key whose last part is most like this key's, wherever its table is; empty if none is like it."""
    lasts = {name: name.rpartition(".")[2] for name in known}
    alike = get_close_matches(key.rpartition(".")[2], set(lasts.values()), n=1)
    same = [name for name, last in lasts.items() if last in alike]
    return get_close_matches(key, same, n=1, cutoff=0.0)[0] if same else ""


def _keys(kind: type[BaseModel], table: str = "") -> list[str]:
    """Every key that a table may have, nested ones with the tables that hold them; models have tables of their own."""
    names: list[str] = []
    for name, field in kind.model_fields.items():
        names.append(table + ("protocol" if name == "protocols" else name))
        kinds = get_args(field.annotation) if isinstance(field.annotation, UnionType) else (field.annotation,)
        for nested in kinds:
            if isinstance(nested, type) and issubclass(nested, BaseModel) and nested is not ModelSpec:
                names += _keys(nested, f"{table}{name}.")
    return names
