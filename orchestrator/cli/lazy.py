"""Commands that are imported when they are typed, so that ``--help`` imports none of them."""

import re
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from envs.errors import UserError
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
        """Return the command with its arguments and options; raises PackageError if its package cannot be imported."""
        command = super().get_command(ctx, cmd_name)
        if load := getattr(getattr(command, "callback", None), "load", None):
            program = typer.Typer(add_completion=False, rich_markup_mode=None)
            program.command(cmd_name)(load())
            command = typer.main.get_command(program)
            for parameter in command.params:
                if parameter.param_type_name == "argument":
                    parameter.display_type_rich = lambda *_, **__: ""  # type: ignore[attr-defined]  # has a metavar
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each under the panel that it is in."""
        panels = dict[str, list[tuple[str, str]]]()
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, command.help or ""))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def defer(target: str, load: Callable[[], Any]) -> Callable[[], None]:
    """Return a stand-in for the command ``module:function`` that ``load`` imports, with the first line of its docstring."""

    def stand_in() -> None: ...

    stand_in.__doc__, module, function = "", *target.split(":")
    stand_in.load = load  # type: ignore[attr-defined]
    with suppress(ImportError, OSError, ValueError):  # a package that cannot be imported is named when it is used
        text = Path(str(getattr(find_spec(module), "origin", ""))).read_text(encoding="utf-8")
        if found := re.search(rf'^def {function}\(.*?^    """(.*?)(""")?$', text, re.DOTALL | re.MULTILINE):
            stand_in.__doc__ = found[1]
    return stand_in
