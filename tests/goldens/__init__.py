"""Texts that tests compare whole: those of this folder ``python -m tests.goldens`` writes anew, the others a variable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def read_golden(path: Path, text: str) -> str:
    """Return what a golden file holds; with ``UPDATE_GOLDEN`` in the environment, write the text to it first."""
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def help_text() -> str:
    """Return the help of every command and option of the core."""
    from typer.main import get_command

    from orchestrator.cli.main import app

    return "\n".join(_help_lines(get_command(app), "proactive-sweep")) + "\n"


def _help_lines(command: Any, path: str) -> Iterator[str]:
    yield f"{path}: {' '.join((command.help or '').split())}"
    for parameter in command.params:
        names = ", ".join((*parameter.opts, *parameter.secondary_opts))
        default = f" [{parameter.default}]" if parameter.default else ""
        yield f"  {names} {parameter.metavar or ''}{default}{' (required)' * parameter.required}: {parameter.help}"
    for name in getattr(command, "commands", {}):
        yield from _help_lines(command.get_command(None, name), f"{path} {name}")


def listings() -> str:
    """Return what ``ls`` lists of the core alone, whatever packages are installed."""
    from typer.testing import CliRunner

    from orchestrator.cli.main import app

    kinds = ("judges", "conditions", "differences")
    texts = (CliRunner().invoke(app, ["ls", kind], env={"COLUMNS": "160"}).stdout for kind in kinds)
    return "\n".join(line.rstrip() for text in texts for line in text.splitlines() if line.strip(" ─━")) + "\n"


GOLDENS: dict[str, Callable[[], str]] = {"help.txt": help_text, "ls.txt": listings}
"""File -> function that returns its text."""
