"""Commands to a running sweep: one file per command in ``control/``, and ``control.jsonl`` with the effect of each.

Anyone with write access to the run folder can send a command; only the driver writes the log, which decides what is paused,
cancelled and drained, also in later attempts. A logged command is never taken again. An invalid file is refused.
"""

import getpass
import logging
import os
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

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
STATES = {"pause": "paused", "cancel": "cancelled"}
"""Verb -> the state of a cell that it holds."""
log = logging.getLogger(__name__)

Text = Annotated[str, Field(max_length=300)]


class Command(BaseModel, frozen=True, strict=True):
    """A request to a running sweep."""

    verb: Literal["pause", "resume", "cancel", "restore", "drain", "undrain"]
    target: Annotated[Text, Field(min_length=1)]
    """``all``, ``judge``, or MODEL[/SCENARIO[/CONDITION]] with ``*``; for ``drain`` a node."""
    who: Text = ""
    """``ana on node1, 2026-11-22T12:00:00+00:00``, as the sending process says; nobody verifies it."""

    def __str__(self) -> str:
        """Return ``cancel u3/*/hint by ana on node1, 2026-11-22T12:00:00+00:00``."""
        return f"{self.verb} {self.target} by {self.who}"


class LogEntry(BaseModel, frozen=True):
    """A line of the log."""

    name: str
    """Name of the command's file."""
    command: Command | None
    """None if the file was invalid."""
    taken: str
    """Time of execution: UTC, ISO 8601."""
    effect: str
    """What it applies to, or why it was refused."""
    refused: bool = False

    @property
    def sentence(self) -> str:
        """Return ``pause u3 by ana on node1, ...: 6 cells``."""
        return f"{self.command or f'control/{self.name}'}: {'refused: ' if self.refused else ''}{self.effect}"


class ControlState:
    """What the accepted commands of a log have paused, cancelled and drained."""

    def __init__(self, entries: Iterable[LogEntry] = ()) -> None:
        self.commands = [entry.command for entry in entries if entry.command and not entry.refused]

    def find(self, verb: str, name: str) -> Command | None:
        """Return the last command that pauses or cancels a cell or ``judge``; None if it was undone."""
        named = (c for c in reversed(self.commands) if c.verb in (verb, UNDO[verb]) and matches(c.target, name))
        last = next(named, None)
        return last if last is not None and last.verb == verb else None

    def _find_hold(self, cell: str) -> Command | None:
        return self.find("cancel", cell) or self.find("pause", cell)

    def mark_cell(self, cell: dict[str, Any]) -> dict[str, Any]:
        """Return a cell of a status; an unfinished one that is cancelled or paused gets this state and its reason."""
        command = self._find_hold(cell["cell"]) if cell["finished"] < cell["planned"] else None
        return {**cell, "state": STATES[command.verb], "reason": str(command)} if command else cell

    def sentences(self, cells: Iterable[str]) -> list[str]:
        """Return ``3 cells cancelled: cancel u3 by ana on node1, ... (`ctl DIR restore` takes that back)``."""
        counts = Counter(command for cell in cells if (command := self._find_hold(cell)))
        return [
            f"{pluralize(count, 'cell')} {STATES[c.verb]}: {c} (`ctl DIR {UNDO[c.verb]}` takes that back)"
            for c, count in counts.items()
        ]


def matches(target: str, cell: str) -> bool:
    """Return True if a target names a cell (``model/scenario/condition``) or ``judge``."""
    if target == ALL:
        return True
    patterns, names = target.split("/"), cell.split("/")
    return len(patterns) <= len(names) and all(map(fnmatchcase, names, patterns))


# -- sending ------------------------------------------------------------------------------------------------------------
def parse_command(verb: str, target: str) -> Command:
    """Return a command from the user of this process. Raises RunFolderError if verb or target is invalid."""
    if not target and verb in ("pause", "resume", "restore"):
        target = ALL
    who = "somebody"
    with suppress(OSError, KeyError):  # a user without a name, as in a container
        who = getpass.getuser()
    sender = f"{who} on {socket.gethostname()}, {_now()}"
    try:
        return Command.model_validate({"verb": verb, "target": target, "who": sender})
    except ValidationError:
        verbs = ", ".join([*UNDO, *UNDO.values()])
        raise RunFolderError(
            f"`ctl DIR {verb} {target[:50]}` is no command; type {verbs}, and a target of at most 300 characters (ctl --help)"
        ) from None


def send_command(folder: Path, command: Command) -> str:
    """Write a command into a run folder, and return its file name. Raises OSError."""
    name = f"{time.time_ns():019d}-{secrets.token_hex(6)}.json"
    safe_write.make_folder(folder / INBOX)
    safe_write.write(folder / INBOX / name, command.model_dump_json(exclude_defaults=True).encode())
    return name


# -- taking: only the driver --------------------------------------------------------------------------------------------
def waiting_commands(folder: Path) -> list[str]:
    """Return the names of the waiting command files, oldest first."""
    with suppress(OSError):  # a disk that does not list them now lists them at the next look
        return sorted(filter(NAME.fullmatch, os.listdir(folder / INBOX)))
    return []


def take_commands(folder: Path, describe: Callable[[Command], tuple[str, bool]]) -> list[Command]:
    """Log the waiting commands in order, remove their files, and return those that are accepted.

    ``describe`` returns what a command applies to, and True if it is refused.
    """
    if not (names := waiting_commands(folder)):
        return []
    logged = {entry.name for entry in read_history(folder)}
    entries = [_read_command(folder, name, describe) for name in names if name not in logged]
    if entries:
        before = checksums.read_verified(folder / LOG) if (folder / LOG).exists() else b""
        lines = "".join(f"{entry.model_dump_json(exclude_defaults=True)}\n" for entry in entries)
        checksums.write(folder / LOG, before + lines.encode())
    for name in names:
        with suppress(OSError):
            safe_write.remove(folder / INBOX / name)
    for entry in entries:
        (log.warning if entry.refused else log.info)("ctl: %s", entry.sentence)
    return ControlState(entries).commands


def _read_command(folder: Path, name: str, describe: Callable[[Command], tuple[str, bool]]) -> LogEntry:
    command, effect, refused = None, "not a command of `proactive-sweep ctl`, so the file is removed", True
    with suppress(OSError, ValueError):
        command = Command.model_validate_json(regular.read_bytes(folder / INBOX / name, LARGEST))
    if command is not None:
        effect, refused = describe(command)
    return LogEntry(name=name, command=command, taken=_now(), effect=effect, refused=refused)


def read_history(folder: Path) -> list[LogEntry]:
    """Return the log without lines of other versions. Raises DamagedRunError: cancelled cells would then be unknown."""
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
