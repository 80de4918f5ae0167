"""Loads the engines of one node one after the other if memory does not hold both, or one has several GPUs.

Each loader holds a ticket, a locked file, which the kernel releases when its process ends, kill -9 included. Tickets are
served in order. After ``MAX_WAIT_S`` a loader goes on, so nobody waits forever.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from filelock import FileLock, Timeout

MAX_WAIT_S = 900.0
"""Longest wait for a turn in seconds: half of what the driver gives a worker to start."""
POLL_INTERVAL_S = 0.5
"""Seconds between two readings of the tickets."""
MUTEX_TIMEOUT_S = 30.0
"""Seconds to wait for another process that reads the tickets; it takes milliseconds, unless it was stopped."""
MEMORY_MARGIN_BYTES = 2 * 2**30
"""Bytes that a process takes in addition to the weights."""
ROOT = Path("/")
Report = Callable[[str], None]
"""Takes a line of the log."""


class LoadQueue:
    """The loaders of one node and user; ``folder`` holds their tickets and one permanent lock file."""

    def __init__(self, folder: Path | None = None, free: Callable[[], int] | None = None) -> None:
        """``free`` returns the free bytes of host memory."""
        self.folder = folder or Path(tempfile.gettempdir()) / f"proactive-sweep-loading-{os.getuid()}"
        self.free = free or free_memory

    @contextmanager
    def turn(
        self, model: str, size: int | None, report: Report, timeout: float = MAX_WAIT_S, alone: bool = False
    ) -> Iterator[None]:
        """Hold a turn while loading ``size`` bytes of weights; an unknown size (None) never shares its turn.

        Nor does a load ``alone``: the processes of an engine with several GPUs meet at a port that was free a moment ago,
        and another engine that starts meanwhile may take it (vllm issues 39015, 43206).

        With an unusable folder, the engine loads without a turn.
        """
        ticket = None
        try:
            ticket = self._draw(model, size, alone)
            self._wait(ticket, report, timeout)
        except OSError as problem:
            report(f"{model} loads without waiting for others: {problem}")
        try:
            yield
        finally:
            if ticket is not None:
                with suppress(OSError), self._mutex():
                    ticket.remove()
                ticket.lock.release()

    def _wait(self, ticket: LoadTicket, report: Report, timeout: float) -> None:
        began, waited = monotonic(), False
        while reason := self._reason_to_wait(ticket):
            if monotonic() - began >= timeout:
                report(f"{ticket.model} loads after {timeout:.0f} s of waiting, although {reason}")
                with self._mutex():
                    ticket.write(loading=True)
                return
            if not waited:
                report(f"{ticket.model} waits for its turn to load: {reason}")
                waited = True
            sleep(POLL_INTERVAL_S)
        if waited:
            report(f"{ticket.model} loads after {monotonic() - began:.0f} s of waiting")

    def _draw(self, model: str, size: int | None, alone: bool) -> LoadTicket:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with self._mutex():
            numbers = [int(path.stem) for path in self.folder.glob("*.ticket")]
            return LoadTicket(self.folder / f"{max(numbers, default=0) + 1:012d}.ticket", model, size, alone)

    def _reason_to_wait(self, ticket: LoadTicket) -> str:
        """Return why it is not this ticket's turn; empty if it is, and the ticket is then marked as loading."""
        with self._mutex():
            others = self._others(ticket)
            loading = [holder for holder in others if holder["loading"]]
            earlier = [holder for holder in others if not holder["loading"] and holder["path"] < str(ticket.path)]
            reason = (
                f"{earlier[0]['model']} is before it"
                if earlier
                else _apart(loading, ticket) or self._short_of_memory(loading, ticket.size)
            )
            if not reason:
                ticket.write(loading=True)
            return reason

    def _short_of_memory(self, loading: list[dict[str, Any]], size: int | None) -> str:
        """Return why this size does not fit with those that are loading, whose memory counts as not taken yet."""
        if not loading:
            return ""
        names = " and ".join(str(holder["model"]) for holder in loading)
        sizes = [size, *(holder["size"] for holder in loading)]
        if None in sizes:
            return f"{names} is loading, and sizes are not known"
        needed = sum(int(weights) + MEMORY_MARGIN_BYTES for weights in sizes)
        free = self.free()
        if needed <= free:
            return ""
        return f"{names} is loading, together they take {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"

    def _others(self, ticket: LoadTicket) -> list[dict[str, Any]]:
        """Return the other tickets in use; remove those without a holder."""
        tickets = []
        for path in sorted(self.folder.glob("*.ticket")):
            if path == ticket.path:
                continue
            try:
                with FileLock(path, timeout=0):
                    _remove(path)
            except Timeout:
                tickets.append({"path": str(path), **_content(path)})
        return tickets

    def _mutex(self) -> FileLock:
        """Return the lock for reading and changing tickets; its ``with`` raises Timeout, an OSError."""
        return FileLock(self.folder / "queue.lock", timeout=MUTEX_TIMEOUT_S, mode=0o600)


class LoadTicket:
    """A place in the queue: a locked file, and a JSON file about what its holder loads."""

    def __init__(self, path: Path, model: str, size: int | None, alone: bool) -> None:
        self.path, self.model, self.size, self.alone = path, model, size, alone
        self.lock = FileLock(path, timeout=0, mode=0o600)
        self.lock.acquire()
        self.write(loading=False)

    def write(self, loading: bool) -> None:
        """Publish the ticket's state; under the mutex."""
        content = {"model": self.model[:100], "size": self.size, "alone": self.alone, "loading": loading}
        self.path.with_suffix(".json").write_text(json.dumps({**content, "pid": os.getpid()}))

    def remove(self) -> None:
        """Give the place up, even if forked children hold the same lock; under the mutex."""
        _remove(self.path)


def _apart(loading: list[dict[str, Any]], ticket: LoadTicket) -> str:
    """Return why the ticket must wait because it, or one that is loading, loads alone; empty if none does."""
    if not loading:
        return ""
    if ticket.alone:
        return f"{' and '.join(str(holder['model']) for holder in loading)} is loading, and {ticket.model} starts alone"
    return next((f"{holder['model']} is loading and starts alone" for holder in loading if holder["alone"]), "")


def _content(path: Path) -> dict[str, Any]:
    """Return a ticket's state; an unreadable one (a full disk, a cleaned folder) may be loading anything."""
    try:
        state = json.loads(path.with_suffix(".json").read_text())
        return {name: state[name] for name in ("model", "size", "alone", "loading")}
    except (OSError, ValueError, KeyError, TypeError):
        return {"model": "another model", "size": None, "alone": False, "loading": True}


def _remove(path: Path) -> None:
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def free_memory(root: Path = ROOT) -> int:
    """Return the bytes of host memory that are free without swapping: the machine's, or this container's (cgroup 2) if less."""
    machine = _kilobytes(root / "proc/meminfo", "MemAvailable:") * 1024
    group = root / "sys/fs/cgroup"
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return machine
    if not limit.isdigit():
        return machine
    return max(0, min(machine, int(limit) - used + _kilobytes(group / "memory.stat", "inactive_file")))


def _kilobytes(path: Path, name: str) -> int:
    """Return the number after a name in a kernel table; 0 if there is none."""
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            if line.split()[:1] == [name]:
                return int(line.split()[1])
    return 0
