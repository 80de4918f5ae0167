"""The lock of a run folder: one writer, and a second one is refused with the first one's host and pid.

The lock is the kernel's (``flock``) and dies with its process, kill -9 included; the JSON in the file only says who.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envs import regular
from orchestrator.storage import atomic_write

NAME = "lock"
WRITER = "writer.json"
"""In a copy of a run that is elsewhere: who writes there."""
LARGEST = 4096
"""Bytes of either file that are read."""

_held: dict[Path, tuple[int, set[str]]] = {}
"""Folders that this process holds: handle, and the roles it holds them in."""


class RunFolderError(Exception):
    """What the user should read about a run folder; its text is the whole message."""


def resolved(folder: Path) -> Path:
    """Where a folder lies, links followed; of a link to itself its own name, which ``Path.resolve`` raises for."""
    return Path(os.path.realpath(folder))


def named_once(folders: Iterable[Path]) -> None:
    """Raises RunFolderError where a folder is named twice, under another name too."""
    named = [resolved(folder) for folder in folders]
    if len(set(named)) < len(named):
        raise RunFolderError("a folder is named twice; type each folder once")


def acquire(folder: Path, role: str) -> None:
    """Take the folder for this process; its ``driver`` and its ``store`` share one lock, two of a kind do not.

    Raises RunFolderError, naming the holder, when somebody has it.
    """
    place = resolved(folder)
    if place in _held and role in _held[place][1]:
        raise RunFolderError(f"{folder} is already open in this process ({os.getpid()}); close it first")
    handle = _held[place][0] if place in _held else _locked(folder)
    _held.setdefault(place, (handle, set()))[1].add(role)


def release(folder: Path, role: str) -> None:
    """Give up a role; the lock goes with the last one."""
    place = resolved(folder)
    if place not in _held:
        return
    handle, roles = _held[place]
    roles.discard(role)
    if not roles:
        del _held[place]
        os.close(handle)


@contextlib.contextmanager
def held(folder: Path, role: str) -> Iterator[None]:
    """``acquire`` and ``release`` around a block."""
    acquire(folder, role)
    try:
        yield
    finally:
        release(folder, role)


def holder(folder: Path) -> dict[str, Any] | None:
    """Host, pid and start time of the process that writes in the folder now; None when nobody does."""
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return _elsewhere(folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _who(handle)
    except OSError:
        return None
    finally:
        os.close(handle)
    return None


def _locked(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # replies, logs: its owner's alone, unless made before
        handle = atomic_write.opened(folder / NAME, os.O_RDWR)
    except OSError as problem:
        raise RunFolderError(f"{folder} cannot be a run folder ({problem.strerror}); pass another --output") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        sentence = _refusal(folder, handle, problem)
        os.close(handle)
        raise RunFolderError(sentence) from None
    me = {"host": socket.gethostname(), "pid": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(me).encode(), 0)
    return handle


def _refusal(folder: Path, handle: int, problem: OSError) -> str:
    if not isinstance(problem, BlockingIOError):
        return f"{folder} cannot be locked ({problem.strerror}); pass an --output on a file system that has flock"
    who = _who(handle)
    name = f"process {who['pid']} on {who['host']} (since {who['started']})" if who else "another process"
    return f"{folder} is in use by {name}; wait for it, stop it, or pass another --output"


def _who(handle: int) -> dict[str, Any]:
    """What the holder wrote; empty in the instant before it did."""
    try:
        return _read(os.pread(handle, LARGEST, 0))
    except (OSError, ValueError):
        return {}


def _elsewhere(folder: Path) -> dict[str, Any] | None:
    try:
        return _read(regular.content(folder / WRITER, LARGEST)) or None
    except (OSError, ValueError):
        return None


def _read(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except RecursionError:
        return {}
    return found if isinstance(found, dict) and {"host", "pid", "started"} <= found.keys() else {}
