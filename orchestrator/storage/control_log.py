"""Commands to a running sweep: one file per command in ``control/``, and ``control.jsonl`` with the effect of each.

Anyone with write access to the run folder can send a command; only the driver writes the log. The log applies to every
later attempt, and a logged command is never executed again. An invalid file in ``control/`` is refused without effect.
"""

import getpass
import logging
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs import regular
from envs.errors import DamagedRunError, RunFolderError
from envs.plural import pluralize
from orchestrator.storage import checksums, safe_write

INBOX, LOG = "control", "control.jsonl"
NAME = re.compile(r"[0-9]{19}-[0-9a-f]{12}\.json")
"""Name of a command's file: nanoseconds since 1970, which order the commands, and random digits."""
LARGEST = 1 << 20
"""Most bytes of a command's file."""
ALL, JUDGE = "all", "judge"
"""Targets: everything, and the judge's workers; a cell is named by three parts, so it cannot have these names."""
UNDO = {"pause": "resume", "cancel": "restore", "drain": "undrain"}
HOLDS = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "restore": "restored"}
"""Verb for cells -> what they are afterwards."""
REMOVED = {
    "set": "ctl set is gone (last in 0.2.0); stop the run, edit its sweep, and run it again with --update",
    "requeue": "ctl requeue is gone (last in 0.2.0); `run --retry failed` plays failed episodes again",
}
log = logging.getLogger(__name__)

Text = Annotated[str, Field(max_length=300)]


class Command(BaseModel):
    """A request to a running sweep."""

    model_config = ConfigDict(frozen=True, strict=True)

    verb: Literal["pause", "resume", "cancel", "restore", "drain", "undrain"]
    target: Annotated[Text, Field(min_length=1)]
    """``all``, ``judge``, or MODEL[/SCENARIO[/CONDITION]] with ``*``; for ``drain`` a node."""
    who: Text = ""
    host: Text = ""
    asked: Text = ""
    """Time of sending: UTC, ISO 8601. User, host and time come from the sending process and are not verified."""

    @property
    def description(self) -> str:
        """``cancel u3/*/hint by ana on node1, 2026-11-22T12:00:00+00:00``."""
        return f"{self} by {self.who} on {self.host}, {self.asked}"

    def __str__(self) -> str:
        """Return the command as typed: ``cancel u3/*/hint``."""
        return f"{self.verb} {self.target}"


class LogEntry(BaseModel):
    """A line of the log."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Name of the command's file."""
    command: Command | None
    """None if the file was invalid."""
    taken: str
    """Time of execution: UTC, ISO 8601."""
    effect: str
    """A sentence such as ``6 cells are paused``, or why the command was refused."""
    refused: bool = False

    @property
    def sentence(self) -> str:
        """Return a line such as ``pause u3 by ana on node1, ...: 6 cells are paused``."""
        command = self.command.description if self.command else f"control/{self.name}"
        return f"{command}: {'refused: ' if self.refused else ''}{self.effect}"


class ControlState:
    """What the accepted commands of a log have paused, cancelled and drained."""

    def __init__(self, entries: Iterable[LogEntry] = ()) -> None:
        self.commands = [entry.command for entry in entries if entry.command and not entry.refused]

    @property
    def drained(self) -> set[str]:
        return {c.target for c in self.commands if c.verb == "drain" and self._last("drain", c.target)}

    def pausing_command(self, cell: str) -> Command | None:
        """Return the command that pauses a cell, or ``judge``; None if it is not paused."""
        return self._last("pause", cell)

    def canceling_command(self, cell: str) -> Command | None:
        """Return the command that cancels a cell; None if it is not canceled."""
        return self._last("cancel", cell)

    def _last(self, verb: str, name: str) -> Command | None:
        """Return the last command with this verb, or the one that undoes it, that names a cell or node, if it has this verb."""
        named = (c for c in reversed(self.commands) if c.verb in (verb, UNDO[verb]) and matches(c.target, name))
        last = next(named, None)
        return last if last is not None and last.verb == verb else None

    def holding_command(self, cell: str) -> Command | None:
        """Return the command that cancels or pauses a cell; None if nothing holds it."""
        return self.canceling_command(cell) or self.pausing_command(cell)

    def mark_cells(self, cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the cells of a status; unfinished ones that are canceled or paused get this state and its reason."""
        return [self._mark_cell(cell) if cell["finished"] < cell["planned"] else cell for cell in cells]

    def _mark_cell(self, cell: dict[str, Any]) -> dict[str, Any]:
        command = self.holding_command(cell["cell"])
        return cell if command is None else {**cell, "state": HOLDS[command.verb], "reason": command.description}

    def sentences(self, cells: Iterable[str]) -> list[str]:
        """Return ``3 cells are cancelled (cancel u3 by ana on node1, 2026-11-22T12:00:00+00:00): u3/ROD/hint, ...``."""
        cells_by_command: dict[Command, list[str]] = {}
        for cell in cells if self.commands else ():
            if (command := self.holding_command(cell)) is not None:
                cells_by_command.setdefault(command, []).append(cell)
        return [_describe(command, names) for command, names in cells_by_command.items()]


def matches(target: str, cell: str) -> bool:
    """Return True if a target names a cell (``model/scenario/condition``), ``judge`` or a node."""
    if target == ALL:
        return True
    patterns, names = target.split("/"), cell.split("/")
    return len(patterns) <= len(names) and all(map(fnmatchcase, names, patterns))


def _describe(command: Command, cells: list[str]) -> str:
    names = ", ".join(cells[:3]) + (", ..." if cells[3:] else "")
    held = f"{pluralize(len(cells), 'cell')} {'is' if len(cells) == 1 else 'are'} {HOLDS[command.verb]}"
    return f"{held} ({command.description}; `ctl DIR {UNDO[command.verb]}` takes that back): {names}"


# -- sending ------------------------------------------------------------------------------------------------------------
def parse_command(verb: str, target: str) -> Command:
    """Return a command from the user of this process. Raises RunFolderError if verb or target is invalid."""
    if not target and verb in ("pause", "resume", "restore"):
        target = ALL
    verbs = [verb for pair in UNDO.items() for verb in pair]
    if verb not in verbs:
        raise RunFolderError(REMOVED.get(verb, f"ctl does not know {verb}; type one of {', '.join(verbs)}"))
    who = "somebody"
    with suppress(OSError, KeyError):  # a user without a name, as in a container
        who = getpass.getuser()
    try:
        return Command.model_validate(
            {"verb": verb, "target": target, "who": who, "host": socket.gethostname(), "asked": _now()}
        )
    except ValidationError:
        raise RunFolderError(f"{verb} takes a target of 1 to 300 characters; --help says which") from None


def send_command(folder: Path, command: Command) -> str:
    """Write a command into a run folder, and return its file name. Raises OSError."""
    name = f"{time.time_ns():019d}-{secrets.token_hex(6)}.json"
    safe_write.make_folder(folder / INBOX)
    safe_write.write(folder / INBOX / name, command.model_dump_json(exclude_defaults=True).encode())
    return name


# -- taking: only the driver --------------------------------------------------------------------------------------------
def waiting_commands(folder: Path) -> list[str]:
    """Return the names of the waiting command files, oldest first."""
    try:
        return sorted(path.name for path in (folder / INBOX).iterdir() if NAME.fullmatch(path.name))
    except OSError:
        return []


def take_commands(folder: Path, execute: Callable[[Command], tuple[str, bool]]) -> None:
    """Execute the waiting commands in order, and log them.

    ``execute`` returns the effect as a sentence, and whether it refused the command. A command's file is deleted after
    it is logged; a logged command whose file is still there is not executed again.
    """
    names = waiting_commands(folder)
    logged_names = {entry.name for entry in read_history(folder)} if names else set()
    if entries := [_take_command(folder, name, execute) for name in names if name not in logged_names]:
        before = checksums.read_verified(folder / LOG) if (folder / LOG).exists() else b""
        lines = "".join(f"{entry.model_dump_json(exclude_defaults=True)}\n" for entry in entries)
        checksums.write(folder / LOG, before + lines.encode())
    for name in names:
        with suppress(OSError):
            safe_write.remove(folder / INBOX / name)
    for entry in entries:
        (log.warning if entry.refused else log.info)("ctl: %s", entry.sentence)


def read_history(folder: Path) -> list[LogEntry]:
    """Return the log, without lines of other versions.

    Raises DamagedRunError if it is damaged, since canceled cells would then be unknown.
    """
    try:
        lines = checksums.read_verified(folder / LOG).splitlines()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise DamagedRunError(
            f"{folder}/{LOG} is damaged ({problem.strerror or problem}); what was paused or cancelled is not known any more:"
            " move the file away to play everything"
        ) from None
    entries = list[LogEntry]()
    for line in lines:
        with suppress(ValueError):
            entries.append(LogEntry.model_validate_json(line))
    return entries


def read_control_state(folder: Path) -> ControlState:
    """Return the state after the log of a run folder. Raises DamagedRunError if the log is damaged."""
    return ControlState(read_history(folder))


def _take_command(folder: Path, name: str, execute: Callable[[Command], tuple[str, bool]]) -> LogEntry:
    try:
        command = Command.model_validate_json(regular.read_bytes(folder / INBOX / name, LARGEST))
    except (OSError, ValueError):
        effect = "not a command of `proactive-sweep ctl`, so the file is removed"
        return LogEntry(name=name, command=None, taken=_now(), refused=True, effect=effect)
    effect, refused = execute(command)
    return LogEntry(name=name, command=command, taken=_now(), effect=effect, refused=refused)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
