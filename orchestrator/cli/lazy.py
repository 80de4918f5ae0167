"""Commands that are imported when they are typed, so that ``--help`` imports none of them."""

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from envs.errors import UserError
from envs.installed import PackageError
from orchestrator.cli.removed import removed_sentence
from orchestrator.cli.user_errors import path_of, report_user_errors


class Commands(TyperGroup):
    """The commands; user errors become one sentence wherever they are raised, also while arguments are parsed."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        with report_user_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was typed; raises UserError for one that an earlier release had."""
        if args[0] not in self.commands and (sentence := removed_sentence(path_of(ctx, args[0]))):
            raise UserError(sentence)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with its arguments and options."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else load(command)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each under the panel that it is in."""
        panels = dict[str, list[tuple[str, str]]]()
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, command.help or ""))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def defer(target: str) -> Callable[[], None]:
    """Return a stand-in for the command ``module:function``, with the first line of its docstring."""

    def stand_in() -> None: ...

    stand_in.__doc__ = read_summary(target)
    stand_in.target = target  # type: ignore[attr-defined]
    return stand_in


def read_summary(target: str) -> str:
    """Return the first line of a function's docstring, read from its source; empty if there is none."""
    module, _, function = target.partition(":")
    try:
        spec = find_spec(module)
        text = Path(str(spec.origin)).read_text(encoding="utf-8") if spec else ""
    except (ImportError, OSError, ValueError):
        return ""
    docstring = text.partition(f"\ndef {function}(")[2].partition('\n    """')[2]
    return docstring.partition("\n")[0].removesuffix('"""')


def load(command: Any) -> Any:
    """Return the command of a stand-in, and any other as it is; raises PackageError if it cannot be imported."""
    if target := getattr(command.callback, "target", ""):
        module, _, function = target.partition(":")
        program = typer.Typer(add_completion=False, rich_markup_mode=None)
        try:
            program.command(command.name)(getattr(importlib.import_module(module), function))
        except Exception as problem:  # a foreign module may raise anything
            if module.startswith("orchestrator."):
                raise
            raise PackageError(f"the command {command.name} cannot be imported from {target} ({problem})") from problem
        command = typer.main.get_command(program)
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda *_, **__: ""  # its metavar says enough
    return command
