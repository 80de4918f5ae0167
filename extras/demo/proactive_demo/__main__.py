"""``python -m proactive_demo``: draw the benchmark and play it, by the commands that it prints, in one process with one Ray."""

import shlex
import sys

import typer

from orchestrator.cli.main import add_installed, build_app
from orchestrator.cli.user_errors import keep_exit_code

COMMANDS = (
    "data demo outputs/demo-data --samples 56 --keep",
    "run sweeps/demo-oeg.toml --set tracking.uri=none",
    "run sweeps/demo.toml",
)


def main() -> None:
    """Run each command; the first that fails ends the program with its exit code."""
    program = typer.main.get_command(add_installed(build_app()))
    for command in COMMANDS:
        print(f"$ proactive-sweep {command}", flush=True)
        if code := program(shlex.split(command), standalone_mode=False):
            sys.exit(code)


if __name__ == "__main__":
    with keep_exit_code():
        main()
