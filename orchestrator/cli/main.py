"""The command line's entry point: every command in its panel of ``--help``.

Each command only calls another package; a user's mistake becomes one sentence and exit code 2.
"""

import io
import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import typer

from actors.node.import_path import close_working_folder
from envs.installed import offers
from orchestrator.cli.lazy import Commands, defer
from orchestrator.cli.user_errors import keep_exit_code

HELP = "Runs ProactiveBench over many multimodal models: resumable, tracked, with intervals."
GROUPS = {"data": "The benchmark's data: download or check it.", "models": "The models: check and try them."}
COMMANDS = {
    "Start": {
        "init": "start:init",
        "ls": "listing:list_names",
        "plan": "plan:plan",
        "run": "run:run",
        "data.fetch": "data:fetch",
        "data.check": "data:check",
        "models.check": "models:check",
        "models.try": "models:try_models",
    },
    "Watch": {"status": "status:status", "view": "view:view", "ctl": "ctl:ctl"},
    "Compare": {"report": "report:report", "compare": "report:compare", "judge": "judge:judge", "audit": "audit:audit"},
    "Share": {"track": "share:track", "merge": "share:merge", "export": "share:export"},
}
"""Panel of ``--help`` -> command, or group and command -> module of this folder and function."""


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
