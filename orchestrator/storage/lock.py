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
from envs.regular import parse_fields
from orchestrator.storage import safe_write

NAME = "lock"
WRITER = "writer.json"
"""File that names the writer in a local copy of a remote run."""
LARGEST = 4096
"""Most bytes that are read of either file."""
LOCK_TRIES, LOCK_PAUSE_S = 10, 0.03


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the folder's lock in a block; the folder is made if needed. Raises RunFolderError that names another holder."""
    safe_write.refuse_links(folder)
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # replies and logs are private to the owner
            handle = safe_write.open_file(folder / NAME, os.O_RDWR)
            stack.callback(os.close, handle)
            _lock_exclusively(handle)
        except BlockingIOError:
            raise refusal(folder, parse_holder(os.pread(handle, LARGEST, 0))) from None
        except OSError as problem:
            raise RunFolderError(
                f"{folder} cannot be a run folder ({problem.strerror}); pass another --output"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(describe_process()).encode(), 0)
        yield


def _lock_exclusively(handle: int) -> None:
    """Lock a file, and try again for a moment, since ``holder`` takes a shared lock to look at it."""
    for _ in range(LOCK_TRIES - 1):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(LOCK_PAUSE_S)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
    except OSError as problem:
        return parse_holder(os.pread(handle, LARGEST, 0)) if isinstance(problem, BlockingIOError) else None
    finally:
        os.close(handle)
    return None


# -- the holder of a folder or of a bucket ------------------------------------------------------------------------------
def describe_process() -> dict[str, Any]:
    """Return this process's host and pid, and the time, as a lock names its holder."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": now}


def parse_holder(content: bytes) -> dict[str, Any]:
    """Return the fields of a lock; empty if they do not name a holder, or not yet."""
    fields = parse_fields(content) or {}
    return fields if names_process(fields) else {}


def names_process(fields: Mapping[str, Any]) -> bool:
    """Return True if a lock's fields name a process, as long as it is held."""
    return {"host", "pid", "started"} <= fields.keys()


def refusal(place: object, fields: Mapping[str, Any]) -> RunFolderError:
    """Return the error for a place in which another process writes, or wrote a moment ago."""
    name = describe_holder(fields) if names_process(fields) else "another process"
    return RunFolderError(f"{place} is in use by {name}; wait for it, stop it, or pass another --output")


def describe_holder(holder: Mapping[str, Any]) -> str:
    """Return a holder as words of a sentence."""
    return f"process {holder['pid']} on {holder['host']} (since {holder['started']})"
