"""The command line's entry point: every command in its panel of ``--help``.

Each command only calls another package; a user's mistake becomes one sentence and exit code 2.
"""

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from actors.node.import_path import close_working_folder
from orchestrator.cli import audit, compare, judge, listing, models, report, run, share, start, status
from orchestrator.cli.ctl import ctl
from orchestrator.cli.data import data_app
from orchestrator.cli.offered_commands import add_offered_commands
from orchestrator.cli.plan import plan
from orchestrator.cli.user_errors import Commands, keep_exit_code
from orchestrator.cli.view import view

HELP = "Runs ProactiveBench over many multimodal models: resumable, tracked, with intervals."


def common(
    print_version: Annotated[
        bool, typer.Option("--version", callback=start.print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Start": {"init": start.init, "ls": listing.list_names, "plan": plan, "run": run.run},
    "Watch": {"status": status.status, "view": view, "ctl": ctl},
    "Compare": {"report": report.report, "compare": compare.compare, "judge": judge.judge, "audit": audit.audit},
    "Share": {"track": share.track, "merge": share.merge, "export": share.export},
}
"""Panel of ``--help`` -> command -> function."""


def build_app() -> typer.Typer:
    """Return the command line of the core."""
    program = typer.Typer(
        cls=Commands, help=HELP, callback=common, no_args_is_help=True, pretty_exceptions_enable=False
    )
    for name, group in {"data": data_app, "models": models.models_app}.items():
        program.add_typer(group, name=name, rich_help_panel="Start")
    for panel, commands in PANELS.items():
        for name, command in commands.items():
            program.command(name, rich_help_panel=panel)(command)
    return program


app = build_app()


def omit_types(command: Any) -> None:
    """Omit ``<bool>`` of flags and ``<list[Path]>`` of arguments from the help of a command and its subcommands."""
    list_parameters = command.get_params

    def get_params(context: Any) -> Any:
        parameters = list_parameters(context)
        for parameter in parameters:
            if parameter.param_type_name == "argument" or parameter.is_flag:
                parameter.display_type_rich = lambda *_, **__: None
        return parameters

    command.get_params = get_params
    for subcommand in getattr(command, "commands", {}).values():
        omit_types(subcommand)


def main() -> None:
    """Run the command that was typed."""
    # seconds that Ray's processes may take to start on a busy machine, instead of 30; read when ray is imported
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    close_working_folder()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a job's log shows each line at once, and escapes characters that its encoding lacks
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    add_offered_commands(app)
    program = typer.main.get_command(app)
    omit_types(program)
    with keep_exit_code():
        program()
