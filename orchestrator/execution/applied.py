"""Another version of a running sweep (``proactive-sweep ctl DIR apply``): what a driver accepts, and which sweep a run plays.

The log of commands decides, not the process: a driver that dies between a command and its effect leaves both to the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from actors.printable import one_line
from envs.installed import PackageError
from envs.samples import BadData
from orchestrator.judging.judge_queue import check_wording
from orchestrator.planning import sweep_change
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from orchestrator.storage import control_log, run_folder
from orchestrator.storage.control_log import APPLY, Command
from orchestrator.storage.lock import RunFolderError
from sweeps.spec import Sweep
from sweeps.sweep_file import SweepError


class Refused(Exception):
    """Why a command is not done; its text is the whole message."""


@dataclass(frozen=True)
class Playable:
    """A sweep and its plan."""

    sweep: Sweep
    plan: Plan


class Applied(Exception):
    """An attempt has ended in good order because the sweep is another one now."""

    def __init__(self, playable: Playable) -> None:
        super().__init__("the sweep is another one now")
        self.playable = playable


def accepted(running: Sweep, command: Command) -> Playable:
    """The running sweep as a command would have it, planned; raises Refused."""
    try:
        sweep = sweep_change.changed(running, sweep_change.read(command.sweep))
        if sweep_change.same(running, sweep):
            raise Refused(f"{command.target} says what is played already")
        check_wording(sweep.judge if sweep.judged else None)
        return Playable(sweep, build_plan(sweep))
    except (RunFolderError, SweepError, BadData, PackageError) as problem:
        raise Refused(one_line(str(problem))) from None


def told(before: Plan, after: Plan) -> str:
    """``27 cells and 1,200 episodes are planned now, in place of 18 and 800; ...``."""
    return (
        f"{len(after.cells):,} cells and {after.total:,} episodes are planned now, in place of {len(before.cells):,} and"
        f" {before.total:,}; what is in play ends first"
    )


def counting(given: Playable, output: Path, update: bool, say: Callable[[str], None]) -> tuple[Playable, bool]:
    """The sweep that counts in a run folder, and whether it replaces the folder's configuration.

    The sweep that was applied last counts for whoever gives one that the folder had before it. One that the folder never
    had, or with ``update`` any, counts in its place and is written into the log. Raises RunFolderError, BadData.
    """
    applies = [entry for entry in control_log.history(output) if entry.applies]
    found = sweep_change.standing(given.sweep, applies, update)
    if not applies:
        return given, update
    if found.by is not None:
        say(
            f"the sweep of {one_line(found.by.told)} is played, not the one given, which it replaced;"
            " --update takes the one given"
        )
        given = Playable(found.sweep, build_plan(found.sweep))
    if found.unknown is not None:
        _replace(given.sweep, output, update)
        say("the sweep given counts from here on, no more the one that `ctl apply` left here")
        return given, True
    return given, update or _differs(output, given.sweep)


def _replace(sweep: Sweep, output: Path, update: bool) -> None:
    """Write down that this sweep counts; raises RunFolderError as ``run_folder.claim`` where the folder is of another one."""
    stored = run_folder.check(output, sweep, update)
    before = run_folder.resolved(stored) if stored else ""
    control_log.note_applied(output, control_log.command(APPLY, "run", sweep=run_folder.resolved(sweep)), before)


def _differs(output: Path, sweep: Sweep) -> bool:
    """Whether the folder is still of the sweep before the apply, as where its driver died in between."""
    stored = run_folder.check(output, sweep, update=True)
    return stored is None or run_folder.settings(stored) != run_folder.settings(sweep)
