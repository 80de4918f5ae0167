"""Reads sweep files as TOML tables; an error is one sentence with file, line and what to type."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from envs import regular
from envs.errors import UserError
from sweeps import shipped

LARGEST = 1 << 20
"""Most bytes of a sweep file."""


class SweepError(UserError, ValueError):
    """A sweep file or option that the user must correct."""


RESOLVED = "sweep.resolved.toml"
"""The sweep in a run folder, with every default: models and conditions are tables instead of names."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""Names of repositories on the Hub: OWNER/NAME."""


def read_sweep(path: Path) -> dict[str, Any]:
    """Read a sweep file, or the sweep of that name that ships, and resolve its data folder; raises SweepError.

    A relative data folder is next to the file or, if it does not exist there, in the working folder.
    """
    file = shipped.resolve_sweep(path)
    is_hub_id = HUB_ID.fullmatch(str(path)) and path.suffix != ".toml" and not (path.parent.exists() or file.exists())
    if is_hub_id or str(path).startswith(("http:/", "https:/")) or (file / "config.json").is_file():
        line = f"proactive-sweep run --model {shlex.quote(str(path).replace(':/', '://'))}"
        raise SweepError(f"{path} is a model, not a sweep; type `{line}`")
    if (file / RESOLVED).is_file():
        line = f"proactive-sweep run {shlex.quote(str(file / RESOLVED))}"
        raise SweepError(f"{path} is a run folder; to resume it, type `{line}`")
    table = read_toml(file)
    for part in (table, table.get("train")):
        if isinstance(part, dict) and isinstance(data := part.get("data"), str):
            part["data"] = shipped.resolve_data(data, file)
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raises SweepError with file and line."""
    try:
        return tomllib.loads(regular.read_bytes(path, LARGEST).decode())
    except FileNotFoundError:
        raise SweepError(f"there is no sweep file {path}; {shipped.suggest_sweep(path)}") from None
    except OSError as problem:
        raise SweepError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as problem:
        raise SweepError(f"{path} is not TOML: {problem}") from None


LISTS = ("models", "scenarios", "conditions", "protocol", "measures")
"""Keys whose values are lists of names."""


def quote_value(value: str | list[str]) -> str:
    """Return a text or a list of texts as TOML."""
    return json.dumps(value, ensure_ascii=False)


def override_key(table: dict[str, Any], override: str) -> None:
    """Set a nested key by ``selection.limit=5``; a value that is not TOML is text, or names joined by commas."""
    key, equals, text = override.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise SweepError(f"--set {override!r} must look like key=value, for example --set selection.limit=5")
    *path, last = (part.strip() for part in key.split("."))
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SweepError(f"--set {override!r}: {part} is a value, not a table")
    try:
        table[last] = tomllib.loads(f"value = {text}")["value"]
    except RecursionError:
        raise SweepError(f"--set: a value of {len(text):,} characters is nested too deep") from None
    except tomllib.TOMLDecodeError:
        table[last] = [name.strip() for name in text.split(",")] if last in LISTS else text
