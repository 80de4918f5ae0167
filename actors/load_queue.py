"""Lets engines of one node load one after the other where memory does not hold them side by side, or one has several GPUs.

A loader that dies lets the next one in, and nobody waits for ever. Each holds a ticket, a locked file, so that the kernel takes
it back when its process ends, kill -9 included. Tickets are served in the order drawn. After ``MAX_WAIT_S`` a loader goes on.
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
"""Seconds a loader waits for its turn at most: half of what the driver gives a worker to start."""
POLL_INTERVAL_S = 0.5
"""Seconds between two readings of the tickets."""
MUTEX_TIMEOUT_S = 30.0
"""Seconds to wait for another process that reads the tickets; it takes milliseconds, unless it was stopped."""
MEMORY_MARGIN_BYTES = 2 * 2**30
"""Bytes that a process takes beside the weights."""
ROOT = Path("/")
Report = Callable[[str], None]
"""Takes a line of the log."""


class LoadQueue:
    """The loaders of one node and user. ``folder`` holds their tickets, and one lock file that stays."""

    def __init__(self, folder: Path | None = None, free: Callable[[], int] | None = None) -> None:
        """``free`` gives the bytes of host memory that are free now."""
        self.folder = folder or Path(tempfile.gettempdir()) / f"proactive-sweep-loading-{os.getuid()}"
        self.free = free or free_memory

    @contextmanager
    def turn(
        self, model: str, size: int | None, report: Report, timeout: float = MAX_WAIT_S, alone: bool = False
    ) -> Iterator[None]:
        """Hold a turn while loading ``size`` bytes of weights; an unknown size (None) shares its turn with nobody.

        Nor does one that is to load ``alone``: the processes of an engine with several GPUs meet at a port that was free a
        moment ago, which another engine that starts meanwhile may have taken (vllm issues 39015, 43206).

        A folder that cannot be used costs the turn, not the load.
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

    def _wait(self, ticket: Ticket, report: Report, timeout: float) -> None:
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

    def _draw(self, model: str, size: int | None, alone: bool) -> Ticket:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with self._mutex():
            numbers = [int(path.stem) for path in self.folder.glob("*.ticket")]
            return Ticket(self.folder / f"{max(numbers, default=0) + 1:012d}.ticket", model, size, alone)

    def _reason_to_wait(self, ticket: Ticket) -> str:
        """Why it is not this ticket's turn; empty when it is, and then the ticket says so to the others."""
        with self._mutex():
            others = self._others(ticket)
            loading = [other for other in others if other["loading"]]
            earlier = [o for o in others if not o["loading"] and o["path"] < str(ticket.path)]
            reason = (
                f"{earlier[0]['model']} is before it"
                if earlier
                else _apart(loading, ticket) or self._short_of_memory(loading, ticket.size)
            )
            if not reason:
                ticket.write(loading=True)
            return reason

    def _short_of_memory(self, loading: list[dict[str, Any]], size: int | None) -> str:
        """Alone anybody may load. Beside others only what fits: all that they will take counts as not taken yet."""
        if not loading:
            return ""
        names = " and ".join(str(other["model"]) for other in loading)
        sizes = [size, *(other["size"] for other in loading)]
        if any(one is None for one in sizes):
            return f"{names} is loading, and sizes are not known"
        needed = sum(int(one) + MEMORY_MARGIN_BYTES for one in sizes)
        free = self.free()
        if needed <= free:
            return ""
        return f"{names} is loading, together they take {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"

    def _others(self, ticket: Ticket) -> list[dict[str, Any]]:
        """The other tickets that are held; one that nobody holds is removed."""
        found = []
        for path in sorted(self.folder.glob("*.ticket")):
            if path == ticket.path:
                continue
            try:
                with FileLock(path, timeout=0):
                    _remove(path)
            except Timeout:
                found.append({"path": str(path), **_content(path)})
        return found

    def _mutex(self) -> FileLock:
        """One process at a time reads and changes the tickets; its ``with`` raises Timeout, an OSError."""
        return FileLock(self.folder / "queue.lock", timeout=MUTEX_TIMEOUT_S, mode=0o600)


class Ticket:
    """A place in the queue: a locked file, and beside it what its holder loads and whether it has begun."""

    def __init__(self, path: Path, model: str, size: int | None, alone: bool) -> None:
        self.path, self.model, self.size, self.alone = path, model, size, alone
        self.lock = FileLock(path, timeout=0, mode=0o600)
        self.lock.acquire()
        self.write(loading=False)

    def write(self, loading: bool) -> None:
        """Show the others; under the mutex."""
        content = {"model": self.model[:100], "size": self.size, "alone": self.alone, "loading": loading}
        self.path.with_suffix(".json").write_text(json.dumps({**content, "pid": os.getpid()}))

    def remove(self) -> None:
        """Give the place up, also for children that were forked meanwhile and hold the same lock; under the mutex."""
        _remove(self.path)


def _apart(loading: list[dict[str, Any]], ticket: Ticket) -> str:
    """Why the ticket waits for those that are loading because it, or one of them, loads alone; empty where none does."""
    if not loading:
        return ""
    if ticket.alone:
        return f"{' and '.join(str(other['model']) for other in loading)} is loading, and {ticket.model} starts alone"
    return next((f"{other['model']} is loading and starts alone" for other in loading if other["alone"]), "")


def _content(path: Path) -> dict[str, Any]:
    """What a held ticket says; one that cannot be read (a full disk, a cleaned folder) may be loading anything."""
    try:
        found = json.loads(path.with_suffix(".json").read_text())
        return {name: found[name] for name in ("model", "size", "alone", "loading")}
    except (OSError, ValueError, KeyError, TypeError):
        return {"model": "another model", "size": None, "alone": False, "loading": True}


def _remove(path: Path) -> None:
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def free_memory(root: Path = ROOT) -> int:
    """Bytes of host memory that are free now without swapping: the machine's, or this container's (cgroup 2) if less."""
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
    """The number behind a name in one of the kernel's tables; 0 where there is none."""
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            if line.split()[:1] == [name]:
                return int(line.split()[1])
    return 0
