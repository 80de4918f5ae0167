"""Commands and options of earlier releases, and what to type instead (``removed.toml``)."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from envs.installed import install_line


@cache
def removed_names() -> dict[str, Any]:
    """Return the tables of ``removed.toml``, read only once something unknown is typed."""
    return tomllib.loads(Path(__file__).with_name("removed.toml").read_text(encoding="utf-8"))


def removed_sentence(typed: str) -> str:
    """Return what to type instead of a command, or of a command and its option; empty if neither was ever there."""
    names = removed_names()
    if extra := names["in_extras"].get(typed):
        return f"`{typed}` belongs to an extra that is not installed; type {install_line(extra)}"
    if line := names["renamed"].get(typed):
        return f"`{typed}` is gone; type {line}"
    return f"`{typed}` is gone; 0.2.0 was the last with it" if typed in names["last_in_0_2_0"] else ""
