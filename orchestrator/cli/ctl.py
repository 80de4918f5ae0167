"""``ctl``: asks something of a running sweep, and says what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from actors.text.printable import printable
from orchestrator.cli.json_output import AsJson, print_json
from orchestrator.cli.options import required_name
from orchestrator.storage.lock import RunFolderError

if TYPE_CHECKING:
    from orchestrator.storage.control_log import LogEntry

ON_A_CLUSTER = ("drain",)
"""What means nothing where no driver is at work."""
REFUSED, UNHEARD = 2, 1


def ctl(
    output: Annotated[str, typer.Argument(metavar="DIR", help="A run folder, or s3://BUCKET/FOLDER.")],
    verb: Annotated[
        str,
        typer.Argument(
            metavar="VERB",
            help="pause, resume, cancel, restore, requeue, set, drain, undrain; none: what was asked.",
        ),
    ] = "",
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="all, judge; MODEL, or MODEL/SCENARIO/CONDITION with * in parts; KEY=VALUE; a node.",
        ),
    ] = "",
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for the driver.")] = 15.0,
    as_json: AsJson = False,
) -> None:
    """Pause, cancel or play again models and cells of a running sweep; change its GPUs or its pace; empty a node."""
    from orchestrator.object_store.control_client import ControlClient
    from orchestrator.storage.control_log import parse_command

    place = ControlClient(required_name(output))
    if not verb:
        _show(place.read_history(), as_json)
        return
    asked = parse_command(verb, target)
    if not place.running and verb in ON_A_CLUSTER:
        raise RunFolderError(f"nobody plays {output} now, so no node of it can be emptied")
    name = place.send(asked)
    if not place.running:
        print(printable(f"nobody plays {output} now: the next `run` there begins with {asked}"))
        return
    answer = place.wait_for_answer(name, wait)
    if answer is None:
        print(printable(f"{asked} is left in {output}; its driver has not taken it within {wait:g} s"))
        raise typer.Exit(UNHEARD)
    if answer.refused:
        raise RunFolderError(f"{asked} is refused: {answer.effect}")
    print(printable(answer.effect))


def _show(entries: list[LogEntry], as_json: bool) -> None:
    """Every command that was taken, and what came of it."""
    from rich.markup import escape
    from rich.table import Column, Table

    from orchestrator.monitoring.console import show

    if as_json:
        print_json([entry.model_dump(mode="json") for entry in entries])
        return
    table = Table("taken", "by", "command", Column("effect", overflow="fold"))
    for entry in entries:
        by = f"{entry.command.who} on {entry.command.host}" if entry.command else "?"
        what = str(entry.command) if entry.command else f"control/{entry.name}"
        effect = ("refused: " if entry.refused else "") + entry.effect
        table.add_row(*(escape(text) for text in (_day(entry.taken), by, what, effect)))
    show(table if entries else "nothing was asked of this run")


def _day(text: str) -> str:
    """An ISO 8601 time as people read it; as it is where it is none."""
    try:
        return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text
