"""What somebody asked of a running sweep: one file a command in ``control/``, and ``control.jsonl``, which says what came of it.

Anyone who may write into the run folder may ask; the driver alone writes the log. What is in the log counts for every later
attempt, and a command that stands there is never taken a second time. No file in ``control/`` can do more than be refused.
"""

from __future__ import annotations

import getpass
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs import regular
from orchestrator.storage import atomic_write, checksums
from orchestrator.storage.episode_store import move_aside
from orchestrator.storage.lock import RunFolderError

INBOX, LOG = "control", "control.jsonl"
NAME = re.compile(r"[0-9]{19}-[0-9a-f]{12}\.json")
"""Nanoseconds since 1970, so that commands are taken in the order in which they were asked, and chance."""
LARGEST_SWEEP = 256 * 1024
"""Characters of a sweep that a command of an earlier version (``apply``) carries; the paper's takes 25,000."""
LARGEST = 4 * LARGEST_SWEEP
"""Bytes of a command's file."""
MOST_AT_ONCE = 256
"""Commands that are taken at one look; the others wait for the next one."""
ALL = "all"
ALL_BY_DEFAULT = ("pause", "resume", "restore", "requeue")
"""Verbs that mean everything where no target is typed."""
JUDGE = "judge"
"""The target that names the judge's workers; no cell's key has one part."""

APPLY: Literal["apply"] = "apply"
"""A verb of earlier versions, which occurs only in logs."""
Verb = Literal["pause", "resume", "cancel", "restore", "requeue", "set", "drain", "undrain", "apply"]
Text = Annotated[str, Field(max_length=300)]


class Command(BaseModel):
    """What somebody asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    verb: Verb
    target: Text
    """``all``, ``judge``, or MODEL[/SCENARIO[/CONDITION]], whose parts may hold ``*``; a key of ``set``; a node; a file."""
    value: Text = ""
    """Of ``set``."""
    sweep: Annotated[str, Field(max_length=LARGEST_SWEEP)] = ""
    """Of ``apply``: the whole sweep as TOML, which counts from then on."""
    who: Text = ""
    host: Text = ""
    asked: Text = ""
    """UTC, ISO 8601; who, where and when are as the asking process says."""

    @property
    def description(self) -> str:
        """``cancel u3/*/hint by ana on node1, 2026-11-22T12:00:00+00:00``."""
        return f"{self} by {self.who} on {self.host}, {self.asked}"

    def __str__(self) -> str:
        """``cancel u3/*/hint``, as it was typed."""
        return f"{self.verb} {self.target}" + (f"={self.value}" if self.verb == "set" else "")


class LogEntry(BaseModel):
    """A line of the log."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    """Of the command's file."""
    command: Command | None
    """None where the file was none."""
    taken: str
    """UTC, ISO 8601."""
    effect: str
    """A sentence."""
    refused: bool = False
    before: str = ""
    """Of ``apply``: the sweep that counted until then, as TOML."""

    @property
    def applies(self) -> bool:
        """Return True if another sweep counts from here on."""
        return self.command is not None and self.command.verb == APPLY and not self.refused


def make_command(verb: Verb, target: str, value: str = "", sweep: str = "") -> Command:
    """A command by the user of this process; raises RunFolderError where a part is longer than a command may be."""
    about = {"who": _user(), "host": socket.gethostname(), "asked": _now()}
    try:
        return Command(verb=verb, target=target, value=value, sweep=sweep, **about)
    except ValidationError:
        if len(sweep) > LARGEST_SWEEP:
            raise RunFolderError(
                f"{target} takes {len(sweep):,} characters with every default; a command carries {LARGEST_SWEEP:,}"
            ) from None
        raise RunFolderError(f"{verb} takes a target of at most 300 characters") from None


def parse_command(verb: str, target: str) -> Command:
    """The command of two words; raises RunFolderError where they are none."""
    if verb == APPLY:
        raise RunFolderError(
            "`ctl apply` was removed; stop the run, edit its sweep file, and start it again with `run --update`"
        )
    verbs = [name for name in get_args(Verb) if name != APPLY]
    parsed_verb = next((candidate for candidate in verbs if candidate == verb), None)
    if parsed_verb is None:
        raise RunFolderError(f"ctl does not know {verb}; type one of {', '.join(verbs)}")
    if parsed_verb == "set":
        key, equals, value = target.partition("=")
        if not (key and equals and value):
            raise RunFolderError("set takes KEY=VALUE: cluster.gpus=4, cluster.judge_gpus=1, MODEL.in_flight=32")
        return make_command(parsed_verb, key, value)
    if not target and parsed_verb not in ALL_BY_DEFAULT:
        raise RunFolderError(f"{verb} takes a target; --help says which")
    return make_command(parsed_verb, target or ALL)


def command_file(command: Command) -> tuple[str, bytes]:
    """Name and bytes of a command's file."""
    return f"{time.time_ns():019d}-{secrets.token_hex(6)}.json", command.model_dump_json(exclude_defaults=True).encode()


def send_command(folder: Path, command: Command) -> str:
    """Leave a command in a run folder; its name. Raises OSError."""
    name, content = command_file(command)
    atomic_write.make_folder(folder / INBOX)
    atomic_write.write(folder / INBOX / name, content)
    return name


def waiting_commands(folder: Path) -> list[str]:
    """Names of the command files that nobody has taken, oldest first."""
    try:
        return sorted(path.name for path in (folder / INBOX).iterdir() if NAME.fullmatch(path.name))[:MOST_AT_ONCE]
    except OSError:
        return []


def take_commands(folder: Path, act: Callable[[Command], tuple[str, bool]]) -> list[LogEntry]:
    """Take what waits, in order: ``act`` tells what came of a command, and whether it was refused. For the driver alone.

    A command is in the log before its file goes; one that is there already is not taken again.
    """
    names = waiting_commands(folder)
    if not names:
        return []
    logged_names = {entry.name for entry in read_history(folder)}
    entries = [_take_command(folder, name, act) for name in names if name not in logged_names]
    if entries:
        _append(folder, entries)
    for name in names:
        with suppress(OSError):
            (folder / INBOX / name).unlink()
    return entries


def note_applied(folder: Path, one: Command, before: str) -> None:
    """Log a sweep that replaces the one an ``apply`` left here. For the driver alone."""
    entry = LogEntry(
        name=command_file(one)[0], command=one, taken=_now(), effect="it counts from here on", before=before
    )
    _append(folder, [entry])


def read_history(folder: Path) -> list[LogEntry]:
    """The log; raises RunFolderError where it is damaged, for then nobody knows what was cancelled."""
    try:
        return parse_history(checksums.read_verified(folder / LOG), str(folder))
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise _damaged(str(folder), problem.strerror or str(problem)) from None


def parse_history(content: bytes, where: str) -> list[LogEntry]:
    """The entries of a log's bytes; raises RunFolderError as ``history``."""
    try:
        return [LogEntry.model_validate_json(line) for line in content.decode().splitlines()]
    except ValueError:
        raise _damaged(where, "it is not as it was written") from None


def _damaged(where: str, why: str) -> RunFolderError:
    return RunFolderError(
        f"{where}/{LOG} is damaged ({why}); what was paused or cancelled is not known any more: move the file away to play"
        " everything"
    )


def _take_command(folder: Path, name: str, act: Callable[[Command], tuple[str, bool]]) -> LogEntry:
    path = folder / INBOX / name
    try:
        command = Command.model_validate_json(regular.read_bytes(path, LARGEST))
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "it is not what `proactive-sweep ctl` writes"
        with suppress(OSError):
            move_aside(folder, path)
        return LogEntry(name=name, command=None, taken=_now(), refused=True, effect=f"set aside in damaged/: {why}")
    effect, refused = act(command)
    return LogEntry(name=name, command=command, taken=_now(), effect=effect, refused=refused)


def _append(folder: Path, entries: Iterable[LogEntry]) -> None:
    before = checksums.read_verified(folder / LOG) if (folder / LOG).exists() else b""
    lines = "".join(f"{entry.model_dump_json(exclude_defaults=True)}\n" for entry in entries)
    checksums.write(folder / LOG, before + lines.encode())


# -- what the log comes to ------------------------------------------------------------------------------------------------
class ControlState:
    """What is paused, cancelled, set and drained after all commands of a log."""

    def __init__(self, entries: Iterable[LogEntry] = ()) -> None:
        self.entries: list[LogEntry] = []
        """Those that were not refused."""
        self.settings: dict[str, str] = {}
        self.drained: set[str] = set()
        self._pauses: list[Command] = []
        self._cancels: list[Command] = []
        """Both without what a later command about everything has made void."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: LogEntry) -> None:
        """One more line."""
        if entry.refused or entry.command is None:
            return
        self.entries.append(entry)
        self.set_from(entry.command)

    def set_from(self, command: Command) -> None:
        """What a command sets."""
        if command.verb == "set":
            self.settings[command.target] = command.value
        if command.verb == "drain":
            self.drained.add(command.target)
        if command.verb == "undrain":
            self.drained.discard(command.target)
        for verbs, commands in ((("pause", "resume"), self._pauses), (("cancel", "restore"), self._cancels)):
            if command.verb in verbs:
                commands[:] = [command] if command.target == ALL else [*commands, command]

    def pausing_command(self, cell: str) -> Command | None:
        """The command by which a cell, or ``judge``, is paused; None where it is not."""
        last = _last_match(cell, self._pauses)
        return last if last is not None and last.verb == "pause" else None

    def canceling_command(self, cell: str) -> Command | None:
        """The command by which a cell is cancelled; None where it is not."""
        last = _last_match(cell, self._cancels)
        return last if last is not None and last.verb == "cancel" else None

    def mark_cells(self, cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Cells of a status, those that are not finished with state and reason of what was asked of them."""
        return [self._mark_cell(cell) if cell["finished"] < cell["planned"] else cell for cell in cells]

    def _mark_cell(self, cell: dict[str, Any]) -> dict[str, Any]:
        if (by := self.canceling_command(cell["cell"])) is not None:
            return {**cell, "state": "cancelled", "reason": by.description}
        if (by := self.pausing_command(cell["cell"])) is not None:
            return {**cell, "state": "paused", "reason": by.description}
        return cell

    def sentences(self, cells: Iterable[str]) -> list[str]:
        """``3 cells are cancelled (cancel u3 by ana on node1, 2026-11-22T12:00:00+00:00): u3/ROD/hint, ...``; paused alike."""
        cells_by_command: dict[Command, list[str]] = {}
        for cell in cells if self.entries else ():
            if (by := self.canceling_command(cell) or self.pausing_command(cell)) is not None:
                cells_by_command.setdefault(by, []).append(cell)
        return [_sentence(by, names) for by, names in cells_by_command.items()]


def _last_match(cell: str, commands: list[Command]) -> Command | None:
    return next((command for command in reversed(commands) if matches(command.target, cell)), None)


def read_control_state(folder: Path) -> ControlState:
    """What a run folder's log comes to; raises RunFolderError as ``history``."""
    return ControlState(read_history(folder))


def matches(target: str, cell: str) -> bool:
    """Return True if a target names a cell (``model/scenario/condition``), or ``judge``."""
    if target == ALL:
        return True
    parts, names = target.split("/"), cell.split("/")
    return len(parts) <= len(names) and all(fnmatchcase(name, part) for name, part in zip(names, parts, strict=False))


def matching_cells(target: str, cells: Iterable[str]) -> Iterator[str]:
    """The cells that a target names."""
    return (cell for cell in cells if matches(target, cell))


def _sentence(by: Command, cells: list[str]) -> str:
    state, undone = ("cancelled", "restore") if by.verb == "cancel" else ("paused", "resume")
    names = ", ".join(cells[:3]) + (", ..." if cells[3:] else "")
    count = "1 cell is" if len(cells) == 1 else f"{len(cells)} cells are"
    return f"{count} {state} ({by.description}; `ctl DIR {undone}` takes that back): {names}"


def _user() -> str:
    try:
        return getpass.getuser()
    except OSError:  # a user without a name, as in a container
        return "somebody"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
