"""``ctl``: send a command to a running sweep through its run folder, and print its effect."""

import time
from pathlib import Path
from typing import Annotated

import typer

from envs.errors import UserError
from orchestrator.cli.options import AsJson, RunName, required_name
from orchestrator.cli.printing import print_json, print_lines
from orchestrator.cli.removed import removed_sentence
from orchestrator.object_store.bucket import is_address
from orchestrator.storage import control_log, lock, run_folder, safe_write

WAIT_S, POLL_INTERVAL_S = 15.0, 0.5
"""Seconds that the driver has to take a command, and between two looks for its answer."""
Verb = Annotated[
    str,
    typer.Argument(
        metavar="VERB", help="pause, resume, cancel, restore, drain, undrain; none: list the commands sent so far."
    ),
]
Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="all, judge; MODEL, or MODEL/SCENARIO/CONDITION with * in parts; a node."),
]


def ctl(output: RunName, verb: Verb = "", target: Target = "", as_json: AsJson = False) -> None:
    """Pause or cancel models and cells of a running sweep, or empty a node."""
    if is_address(required_name(output)):
        raise UserError(f"{output} is a bucket; ctl needs a run folder on a disk (0.2.0 was the last to steer buckets)")
    folder = Path(output)
    safe_write.refuse_links(folder)
    if not (folder / run_folder.RESOLVED).exists():
        raise run_folder.missing_run(folder)
    if verb:
        _send(folder, verb, target)
        return
    entries = control_log.read_history(folder)
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in entries])
    else:
        print_lines([f"{entry.taken} {entry.sentence}" for entry in entries] or ["no command was sent to this run"])


def _send(folder: Path, verb: str, target: str) -> None:
    if gone := removed_sentence(f"ctl {verb}"):
        raise UserError(gone)
    command, running = control_log.parse_command(verb, target), lock.holder(folder) is not None
    if verb == "drain" and not running:
        raise UserError(f"{folder} is not running, so it has no nodes to drain")
    name = control_log.send_command(folder, command)
    if not running:
        print_lines([f"{folder} is not running; the next `run` takes the command"])
        return
    deadline = time.monotonic() + WAIT_S
    while not (entries := [entry for entry in control_log.read_history(folder) if entry.name == name]):
        if time.monotonic() >= deadline:
            print_lines([f"the command waits in {folder}; the driver did not take it within {WAIT_S:g} s"])
            raise typer.Exit(1)
        time.sleep(POLL_INTERVAL_S)
    if entries[0].refused:
        raise UserError(f"{verb} is refused: {entries[0].effect}")
    print_lines([entries[0].effect])
