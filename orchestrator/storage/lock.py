"""The lock of a run folder: it admits one writer, and refuses a second one with the first one's host and pid.

The kernel releases the lock (``flock``) when its process ends, also by kill -9. The JSON in the file only names the holder.
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envs import regular
from envs.errors import RunFolderError
from envs.json_text import parse_json
from orchestrator.storage import safe_write

NAME = "lock"
WRITER = "writer.json"
"""File that names the writer in a local copy of a remote run."""
LARGEST = 4096
"""Most bytes that are read of either file."""
LOCK_TRIES, LOCK_PAUSE_S = 10, 0.03

_holdings: dict[Path, tuple[int, set[str]]] = {}
"""Folder that this process has locked -> handle of its lock file, and roles."""


def real_path(folder: Path) -> Path:
    """Return a folder's path with links followed; a circular link stays as it is."""
    return Path(os.path.realpath(folder))


def acquire(folder: Path, role: str) -> None:
    """Lock the folder for this process, in which a ``driver`` and a ``store`` share the lock.

    Raises RunFolderError that names the holder if another process, or the same role in this one, has the folder.
    """
    safe_write.refuse_links(folder)
    path = real_path(folder)
    if path in _holdings and role in _holdings[path][1]:
        raise RunFolderError(f"{folder} is already open in this process ({os.getpid()}); close it first")
    if path not in _holdings:
        _holdings[path] = (_lock_file(folder), set())
    _holdings[path][1].add(role)


def release(folder: Path, role: str) -> None:
    """Release a role; the last one releases the lock."""
    path = real_path(folder)
    if path in _holdings:
        handle, roles = _holdings[path]
        roles.discard(role)
        if not roles:
            del _holdings[path]
            os.close(handle)


@contextlib.contextmanager
def hold(folder: Path, role: str) -> Iterator[None]:
    """Hold the folder's lock in a block."""
    acquire(folder, role)
    try:
        yield
    finally:
        release(folder, role)


def holder(folder: Path) -> dict[str, Any] | None:
    """Return host, pid and start time of the process that writes in the folder; None if there is none."""
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a local copy of a remote run has no lock
        with contextlib.suppress(OSError):
            return parse_holder(regular.read_bytes(folder / WRITER, LARGEST)) or None
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_handle(handle)
    except OSError:
        return None
    finally:
        os.close(handle)
    return None


def _lock_file(folder: Path) -> int:
    """Return the handle of the folder's locked file, which names this process. Raises RunFolderError."""
    handle = -1
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # replies and logs are private to the owner
        handle = safe_write.open_file(folder / NAME, os.O_RDWR)
        _lock_exclusively(handle)
    except OSError as problem:
        sentence = f"{folder} cannot be a run folder ({problem.strerror}); pass another --output"
        if isinstance(problem, BlockingIOError):
            name = describe_holder(current) if (current := _read_handle(handle)) else "another process"
            sentence = f"{folder} is in use by {name}; wait for it, stop it, or pass another --output"
        if handle >= 0:
            os.close(handle)
        raise RunFolderError(sentence) from None
    started = datetime.now(UTC).isoformat(timespec="seconds")
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "started": started}).encode(), 0)
    return handle


def _lock_exclusively(handle: int) -> None:
    """Lock a file, and try again for a moment, since ``holder`` takes a shared lock to look at it."""
    for _ in range(LOCK_TRIES - 1):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(LOCK_PAUSE_S)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _read_handle(handle: int) -> dict[str, Any]:
    """Return the holder's fields; empty until the holder has written them."""
    return parse_holder(os.pread(handle, LARGEST, 0))


def parse_holder(content: bytes) -> dict[str, Any]:
    """Return the holder's host, pid and start time; empty for any other content."""
    try:
        fields = parse_json(content)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) and {"host", "pid", "started"} <= fields.keys() else {}


def describe_holder(holder: Mapping[str, Any]) -> str:
    """Return a holder as words of a sentence."""
    return f"process {holder['pid']} on {holder['host']} (since {holder['started']})"
