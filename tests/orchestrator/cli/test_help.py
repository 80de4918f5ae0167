"""Compares the help of every command and parameter with help.txt; UPDATE_GOLDEN=1 writes the file anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from orchestrator.cli.main import app

GOLDEN = Path(__file__).with_name("help.txt")


def help_lines(command: Any, path: tuple[str, ...] = ("proactive-sweep",)) -> Iterator[str]:
    """Yield a line per command and per parameter, in their order."""
    yield f"{' '.join(path)}: {' '.join((command.help or '').split())}"
    for parameter in command.params:
        names = ", ".join((*parameter.opts, *parameter.secondary_opts))
        bounds = "" if parameter.min is None is parameter.max else f" {parameter.min} to {parameter.max}"
        default = f" [{parameter.default}]" if parameter.default else ""
        required = " (required)" if parameter.required else ""
        yield f"  {names} {parameter.metavar or ''}{bounds}{default}{required}: {parameter.help}"
    for name, child in getattr(command, "commands", {}).items():
        yield from help_lines(child, (*path, name))


def test_the_help_of_every_command_and_parameter():
    text = "\n".join(help_lines(get_command(app))) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")

    assert GOLDEN.read_text(encoding="utf-8") == text
