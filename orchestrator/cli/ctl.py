"""``ctl``: send a command to a running sweep, and print its effect."""

from typing import Annotated

import typer

from envs.errors import UserError
from orchestrator.cli.options import AsJson, RunName, required_name
from orchestrator.cli.printing import print_json, print_lines
from orchestrator.object_store.control_client import ControlClient
from orchestrator.storage.control_log import parse_command

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


def ctl(output: RunName, verb: Verb = "", target: Target = "", as_json: AsJson = False) -> None:
    """Pause or cancel models and cells of a running sweep, or empty a node."""
    client = ControlClient(required_name(output))
    if not verb:
        entries = client.read_history()
        if as_json:
            print_json([entry.model_dump(mode="json") for entry in entries])
        else:
            lines = [f"{entry.taken} {entry.sentence}" for entry in entries]
            print_lines(lines or ["no command was sent to this run"])
        return
    command = parse_command(verb, target)
    if verb == "drain" and not client.running:
        raise UserError(f"{output} is not running, so it has no nodes to drain")
    name = client.send(command)
    if not client.running:
        print_lines([f"{output} is not running; the next `run` starts with {command}"])
        return
    entry = client.wait_for_answer(name, WAIT_S)
    if entry is None:
        print_lines([f"{command} waits in {output}; the driver did not take it within {WAIT_S:g} s"])
        raise typer.Exit(NO_ANSWER)
    if entry.refused:
        raise UserError(f"{command} is refused: {entry.effect}")
    print_lines([entry.effect])
