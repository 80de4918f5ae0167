"""Engines load one after the other where a node's memory does not hold them side by side; a loader that dies lets the next in.

Weights pass through host memory on their way to a GPU. Each loader holds a ticket: a file that it has locked (``flock``),
so that the kernel takes the ticket back when its process ends, kill -9 included. Tickets are served in the order drawn.
Nobody waits for ever: after ``MAX_WAIT_S`` a loader goes on, and says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

MAX_WAIT_S = 900.0
"""Seconds a loader waits for its turn at most: half of what the driver gives a worker to start."""
POLL_INTERVAL_S = 0.5
"""Seconds between two looks."""
MEMORY_MARGIN_BYTES = 2 * 2**30
"""Bytes that a process takes beside the weights."""
ROOT = Path("/")


class LoadQueue:
    """The loaders of one node, told apart by user. ``place`` is made when needed and removed when the last one leaves."""

    def __init__(self, place: Path | None = None, free: Callable[[], int] | None = None) -> None:
        """``free`` gives the bytes of host memory that are to be had now."""
        self.place = place or Path(tempfile.gettempdir()) / f"proactive-sweep-loading-{os.getuid()}"
        self.free = free or free_memory

    @contextmanager
    def turn(
        self, model: str, size: int | None, say: Callable[[str], None], patience: float = MAX_WAIT_S
    ) -> Iterator[None]:
        """Hold a turn while loading ``size`` bytes of weights; an unknown size (None) shares its turn with nobody."""
        try:
            ticket = self._draw(model, size)
        except OSError as problem:
            say(f"{model} loads without waiting for others: {problem}")
            yield
            return
        try:
            try:
                self._wait(ticket, size, say, patience)
            except OSError as problem:
                say(f"{model} loads without waiting for others: {problem}")
            yield
        finally:
            self._leave(ticket)

    def _wait(self, ticket: Ticket, size: int | None, say: Callable[[str], None], patience: float) -> None:
        began, model, told = monotonic(), ticket.model, ""
        while reason := self._hindered(ticket, size):
            if monotonic() - began >= patience:
                say(f"{model} loads after {patience:.0f} s of waiting, although {reason}")
                ticket.write(True)
                return
            if not told:
                say(f"{model} waits for its turn to load: {reason}")
                told = reason
            sleep(POLL_INTERVAL_S)
        if told:
            say(f"{model} loads after {monotonic() - began:.0f} s of waiting")

    def _draw(self, model: str, size: int | None) -> Ticket:
        with self._door():
            numbers = [int(path.stem) for path in self.place.glob("*.ticket")]
            return Ticket(self.place / f"{max(numbers, default=0) + 1:012d}.ticket", model, size)

    def _hindered(self, ticket: Ticket, size: int | None) -> str:
        """Why it is not this ticket's turn; empty when it is, and then the ticket says so to the others."""
        with self._door():
            others = [other for other in self._living() if other["path"] != str(ticket.path)]
            loading = [other for other in others if other["loading"]]
            earlier = [o for o in others if not o["loading"] and o["path"] < str(ticket.path)]
            reason = f"{earlier[0]['model']} is before it" if earlier else self._no_room(loading, size)
            if not reason:
                ticket.write(True)
            return reason

    def _no_room(self, loading: list[dict[str, Any]], size: int | None) -> str:
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

    def _living(self) -> list[dict[str, Any]]:
        """What the held tickets say; a ticket that nobody holds is swept away."""
        found = []
        for path in sorted(self.place.glob("*.ticket")):
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    path.unlink()
                except BlockingIOError:
                    found.append({"path": str(path), **json.loads(os.pread(handle, 4096, 0))})
                finally:
                    os.close(handle)
        return found

    def _leave(self, ticket: Ticket) -> None:
        with suppress(OSError):
            with self._door():
                ticket.close()
            self.place.rmdir()  # fails while somebody holds a ticket

    @contextmanager
    def _door(self) -> Iterator[None]:
        """One process at a time looks at the tickets. The folder itself is the lock, so that nothing is left behind."""
        handle = self._opened()
        try:
            yield
        finally:
            _unlocked(handle)

    def _opened(self) -> int:
        while True:
            self.place.mkdir(mode=0o700, exist_ok=True)
            try:
                handle = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:  # the last one left between these two lines
                continue
            fcntl.flock(handle, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(self.place)):
                    return handle
            os.close(handle)


class Ticket:
    """A place in the queue: a locked file that says what its holder loads, and whether it has begun."""

    def __init__(self, path: Path, model: str, size: int | None) -> None:
        self.path, self.model, self.size = path, model, size
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.handle, fcntl.LOCK_EX)
        self.write(False)

    def write(self, loading: bool) -> None:
        """Tell the others; of fixed length, so that nobody reads half."""
        content = {"model": self.model[:100], "size": self.size, "pid": os.getpid(), "loading": loading}
        os.pwrite(self.handle, json.dumps(content).ljust(1024).encode(), 0)

    def close(self) -> None:
        """Give the place up, also for children that were forked meanwhile and hold the same lock."""
        self.path.unlink(missing_ok=True)
        _unlocked(self.handle)


def _unlocked(handle: int) -> None:
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def free_memory(root: Path = ROOT) -> int:
    """Bytes of host memory to be had now without swapping: what the machine has left, or this container (cgroup 2)."""
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
    """The number behind a name in a table of the kernel's; 0 where there is none."""
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            if line.split()[:1] == [name]:
                return int(line.split()[1])
    return 0
