"""The command line's entry point: every command in its panel of ``--help``.

Each command only calls another package, and is imported when it is typed, so that ``--help`` imports none.
"""

import io
import os
import re
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from actors.node.import_path import close_working_folder
from envs.errors import UserError
from envs.installed import offers
from orchestrator.cli.user_errors import keep_exit_code, path_of, removed_sentence, report_user_errors

HELP = "Runs ProactiveBench over many multimodal models: resumable, tracked, with intervals."
GROUPS = {"data": "The benchmark's data: download or check it.", "models": "The models: check and try them."}
COMMANDS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
"""Panel of ``--help`` -> command, or group and command -> module of this folder and function."""


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


def print_version(requested: bool) -> None:
    """Print the version and exit, for ``--version``."""
    if requested:
        from orchestrator.storage.software import version

        print(f"proactive-sweep {version()}")
        raise typer.Exit


def common(
    print_version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def build_app() -> typer.Typer:
    """Return the command line of the core."""
    # plain help: rich would take half of the time of `--help`
    shared: dict[str, Any] = {"cls": Commands, "no_args_is_help": True, "rich_markup_mode": None}
    program = typer.Typer(help=HELP, callback=common, pretty_exceptions_enable=False, **shared)
    for name, text in GROUPS.items():
        program.add_typer(typer.Typer(help=text, **shared), name=name, rich_help_panel="Start")
    for panel, commands in COMMANDS.items():
        for name, target in commands.items():
            entry = EntryPoint(name, f"orchestrator.cli.{target}", "")
            add_command(program, name, defer(entry.value, entry.load), panel)
    return program


def add_command(program: typer.Typer, name: str, stand_in: Callable[[], None], panel: str) -> None:
    """Add a command: ``train``, or ``data.demo`` for a subcommand of the group ``data``."""
    group, _, subcommand = name.rpartition(".")
    groups = {info.name: info.typer_instance for info in program.registered_groups}
    (groups.get(group) or program).command(subcommand, rich_help_panel=None if group else panel)(stand_in)


app = build_app()


def add_installed(program: typer.Typer) -> typer.Typer:
    """Add the commands of installed packages and return the command line."""
    for name, offer in offers("command").items():
        add_command(program, name, defer(offer.entry.value, offer.load), "Extras")
    return program


def main() -> None:
    """Run the command that was typed."""
    # seconds that Ray's processes may take to start on a busy machine, instead of 30; read when ray is imported
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    close_working_folder()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a job's log shows each line at once, and escapes characters that its encoding lacks
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    with keep_exit_code():
        typer.main.get_command(add_installed(app))()
