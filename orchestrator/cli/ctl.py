"""``ctl``: asks something of a running sweep, and says what came of it."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from actors.printable import printable
from orchestrator.cli.as_json import AsJson, show_json
from orchestrator.cli.options import named
from orchestrator.cli.plan import Overrides
from orchestrator.storage.lock import RunFolderError

if TYPE_CHECKING:
    from orchestrator.object_store.asking import Asking
    from orchestrator.storage.control_log import Command, Entry

ON_A_CLUSTER = ("drain",)
"""What means nothing where no driver is at work."""
REFUSED, UNHEARD = 2, 1


def ctl(
    output: Annotated[str, typer.Argument(metavar="DIR", help="A run folder, or s3://BUCKET/FOLDER.")],
    verb: Annotated[
        str,
        typer.Argument(
            metavar="VERB",
            help="pause, resume, cancel, restore, requeue, set, drain, undrain, apply; none: what was asked.",
        ),
    ] = "",
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="all, judge; MODEL, or MODEL/SCENARIO/CONDITION with * in parts; KEY=VALUE; a node; SWEEP.toml.",
        ),
    ] = "",
    set_: Overrides = [],  # noqa: B006
    yes: Annotated[bool, typer.Option("--yes", help="Apply without asking.")] = False,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for the driver.")] = 15.0,
    as_json: AsJson = False,
) -> None:
    """Pause, cancel or play again models and cells of a running sweep; change its GPUs or its pace; empty a node.

    ``apply SWEEP.toml`` puts the sweep file's next version on the running sweep: it shows the difference, and asks.
    """
    from orchestrator.object_store.asking import Asking
    from orchestrator.storage.control_log import APPLY, typed

    place = Asking(named(output))
    if not verb:
        _show(place.history(), as_json)
        return
    if verb != APPLY and (set_ or yes):
        raise RunFolderError(f"--set and --yes belong to apply; type {verb} without them")
    asked = _applied(place, target, set_, yes) if verb == APPLY else typed(verb, target)
    if not place.running and verb in ON_A_CLUSTER:
        raise RunFolderError(f"nobody plays {output} now, so no node of it can be emptied")
    name = place.ask(asked)
    if not place.running:
        print(printable(f"nobody plays {output} now: the next `run` there begins with {asked}"))
        return
    answer = place.answer(name, wait)
    if answer is None:
        print(printable(f"{asked} is left in {output}; its driver has not taken it within {wait:g} s"))
        raise typer.Exit(UNHEARD)
    if answer.refused:
        raise RunFolderError(f"{asked} is refused: {answer.effect}")
    print(printable(answer.effect))


def _applied(place: Asking, file: str, overrides: list[str], yes: bool) -> Command:
    """The command that applies a sweep file, once its difference was shown and taken; raises SweepError, RunFolderError."""
    from pathlib import Path

    from orchestrator.planning import sweep_change
    from orchestrator.storage.control_log import APPLY, command
    from sweeps.load import load

    if not file:
        raise RunFolderError("apply takes a sweep file: ctl DIR apply SWEEP.toml")
    running, planned = place.played()
    new = sweep_change.changed(running, load(Path(file), overrides))
    found = sweep_change.lines(running, new, planned)
    if not found:
        raise RunFolderError(f"{file} says what is played already; nothing is asked")
    asked = command(APPLY, Path(file).name, sweep=sweep_change.toml(new))
    print(*map(printable, found), sep="\n")
    if not yes and not sys.stdin.isatty():
        raise RunFolderError("nothing is applied: there is no terminal to ask on; --yes applies it without asking")
    if not yes:
        typer.confirm("apply this to the sweep?", abort=True)
    return asked


def _show(entries: list[Entry], as_json: bool) -> None:
    """Every command that was taken, and what came of it."""
    from rich.markup import escape
    from rich.table import Column, Table

    from orchestrator.monitoring.console import show

    if as_json:
        show_json([entry.model_dump(mode="json") for entry in entries])
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
