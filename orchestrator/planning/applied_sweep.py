"""Sweeps that an earlier version's ``ctl apply`` put in place of the one a run folder was started with.

The command is gone, but a folder whose log holds such a sweep resumes with it.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.text.printable import one_line
from orchestrator.planning.named_by_user import check_applied
from orchestrator.storage import control_log, run_folder
from orchestrator.storage.control_log import APPLY
from orchestrator.storage.lock import RunFolderError
from sweeps.spec import Sweep

LOCATION_KEYS = ("name", "data", "output", "tracking", "cluster", "staging")
"""Keys that set where a run plays, not what it plays; the sweep of the command always sets them."""


def effective_sweep(given: Sweep, folder: Path, update: bool, say: Callable[[str], None]) -> tuple[Sweep, bool]:
    """Return the sweep to play in a run folder, and True if it replaces the folder's configuration.

    The last applied sweep is played if the folder had the given one before. Any other sweep, or with ``update`` every sweep,
    replaces it, which is logged. Raises RunFolderError.
    """
    applies = [entry for entry in control_log.read_history(folder) if entry.applies]
    last = applies[-1].command if applies else None
    if last is None:
        return given, update
    applied = _parse_sweep(last.sweep)
    if _played_keys(given) == _played_keys(applied):
        return given, update or _differs_from_stored(given, folder)
    earlier = [text for entry in applies if entry.command for text in (entry.before, entry.command.sweep) if text]
    if not update and any(_played_keys(given) == _played_keys(_parse_sweep(text)) for text in earlier):
        say(
            f"The sweep of {one_line(last.description)} is played because it replaced the given one;"
            " add --update to play the given one."
        )
        location = {key: getattr(given, key) for key in LOCATION_KEYS}
        sweep = _parse_sweep(run_folder.sweep_toml(applied.model_copy(update=location)))
        check_applied(folder, sweep, given)
        return sweep, _differs_from_stored(sweep, folder)
    _record_replacement(given, folder, update)
    say("The given sweep replaces the one that `ctl apply` left in this run folder.")
    return given, True


def _record_replacement(sweep: Sweep, folder: Path, update: bool) -> None:
    """Log that this sweep is played from now on; raises RunFolderError if it is not the folder's and not an update."""
    stored = run_folder.check_configuration(folder, sweep, update)
    before = run_folder.sweep_toml(stored) if stored else ""
    control_log.log_replaced_sweep(
        folder, control_log.make_command(APPLY, "run", sweep=run_folder.sweep_toml(sweep)), before
    )


def _differs_from_stored(sweep: Sweep, folder: Path) -> bool:
    stored = run_folder.check_configuration(folder, sweep, update=True)
    return stored is None or run_folder.settings(stored) != run_folder.settings(sweep)


def _parse_sweep(text: str) -> Sweep:
    try:
        return Sweep(**tomllib.loads(text))
    except (ValueError, TypeError, RecursionError) as problem:
        reason = str(problem).partition("\n")[0] or type(problem).__name__
        raise RunFolderError(f"control.jsonl holds a sweep that this version cannot read ({reason})") from None


def _played_keys(sweep: Sweep) -> dict[str, Any]:
    return sweep.model_dump(mode="json", exclude_none=True, exclude=set(LOCATION_KEYS))
