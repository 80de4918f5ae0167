"""``ctl``: send a command to a running sweep, and print its effect."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import printable
from envs.errors import UserError
from orchestrator.cli.options import AsJson, RunName, required_name
from orchestrator.cli.printing import print_json, text_table
from orchestrator.monitoring.console import show

if TYPE_CHECKING:
    from orchestrator.storage.control_log import LogEntry

NO_ANSWER = 1
"""Exit code if the driver does not take the command in time."""
WAIT_S = 15.0
"""Seconds that the driver has to take a command."""

Verb = Annotated[
    str,
    typer.Argument(
        metavar="VERB",
        help="pause, resume, cancel, restore, drain, undrain; none: list the commands sent so far.",
    ),
]
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="all, judge; MODEL, or MODEL/SCENARIO/CONDITION with * in parts; a node."),
]


def ctl(
    output: RunName,
    verb: Verb = "",
    target: Target = "",
    as_json: AsJson = False,
) -> None:
    """Pause or cancel models and cells of a running sweep, or empty a node."""
    from orchestrator.object_store.control_client import ControlClient
    from orchestrator.storage.control_log import parse_command

    client = ControlClient(required_name(output))
    if not verb:
        _show_history(client.read_history(), as_json)
        return
    command = parse_command(verb, target)
    if verb == "drain" and not client.running:
        raise UserError(f"{output} is not running, so it has no nodes to drain")
    name = client.send(command)
    if not client.running:
        print(printable(f"{output} is not running; the next `run` starts with {command}"))
        return
    entry = client.wait_for_answer(name, WAIT_S)
    if entry is None:
        print(printable(f"{command} waits in {output}; the driver did not take it within {WAIT_S:g} s"))
        raise typer.Exit(NO_ANSWER)
    if entry.refused:
        raise UserError(f"{command} is refused: {entry.effect}")
    print(printable(entry.effect))


def _show_history(entries: list[LogEntry], as_json: bool) -> None:
    """Print every executed command and its effect."""
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in entries])
        return
    rows = [
        (
            _format_time(entry.taken),
            f"{entry.command.who} on {entry.command.host}" if entry.command else "?",
            str(entry.command) if entry.command else f"control/{entry.name}",
            ("refused: " if entry.refused else "") + entry.effect,
        )
        for entry in entries
    ]
    show(text_table(("taken", "by", "command", "effect"), rows) if rows else "no command was sent to this run")


def _format_time(text: str) -> str:
    """Return an ISO 8601 time for people; any other text unchanged."""
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text
