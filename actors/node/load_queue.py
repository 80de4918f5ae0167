"""Loads the engines of one node one after the other if memory is short or one of them must load alone.

Each loader holds a ticket, a locked file, which the kernel releases when its process ends, kill -9 included. Tickets are
served in order. After ``MAX_WAIT_S`` a loader continues anyway, so no wait is endless.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from filelock import FileLock, Timeout
from pydantic import BaseModel

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
        """Hold a turn while loading ``size`` bytes of weights; an unknown size (None) and ``alone`` never share a turn.

        If the folder is unusable, the engine loads without a turn.
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
        model, start, waited = ticket.state.model, monotonic(), False
        while reason := self._reason_to_wait(ticket):
            if monotonic() - start >= timeout:
                report(f"{model} loads after {timeout:.0f} s of waiting, although {reason}")
                with self._mutex():
                    ticket.mark_loading()
                return
            if not waited:
                report(f"{model} waits for its turn to load: {reason}")
                waited = True
            sleep(POLL_INTERVAL_S)
        if waited:
            report(f"{model} loads after {monotonic() - start:.0f} s of waiting")

    def _draw(self, model: str, size: int | None, alone: bool) -> LoadTicket:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with self._mutex():
            number = 1 + max((int(path.stem) for path in self.folder.glob("*.ticket")), default=0)
            state = TicketState(model=model[:100], size=size, alone=alone, loading=False, pid=os.getpid())
            return LoadTicket(self.folder / f"{number:012d}.ticket", state)

    def _reason_to_wait(self, ticket: LoadTicket) -> str:
        """Return why it is not this ticket's turn; empty if it is, and the ticket is then marked as loading."""
        with self._mutex():
            others = self._other_tickets(ticket)
            loading = [state for state in others.values() if state.loading]
            earlier = [state for path, state in others.items() if not state.loading and path < ticket.path]
            if earlier:
                return f"{earlier[0].model} is before it"
            reason = self._conflict(loading, ticket.state) if loading else ""
            if not reason:
                ticket.mark_loading()
            return reason

    def _conflict(self, loading: list[TicketState], new: TicketState) -> str:
        """Return why a load must wait for those in progress (they may not have taken their memory yet); empty if it need not."""
        others = f"{' and '.join(state.model for state in loading)} {'is' if len(loading) == 1 else 'are'} loading"
        if new.alone:
            return f"{others}, and {new.model} starts alone"
        if alone := next((state for state in loading if state.alone), None):
            return f"{alone.model} is loading and starts alone"
        needed, free = 0, self.free()
        for state in (new, *loading):
            if state.size is None:
                return f"{others}, and not all sizes are known"
            needed += state.size + MEMORY_MARGIN_BYTES
        if needed <= free:
            return ""
        return f"{others}; with {new.model} that takes {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"

    def _other_tickets(self, ticket: LoadTicket) -> dict[Path, TicketState]:
        """Return the other tickets in use, in order; remove those without a holder."""
        states = {}
        for path in sorted(set(self.folder.glob("*.ticket")) - {ticket.path}):
            try:
                with FileLock(path, timeout=0):
                    _remove(path)
            except Timeout:
                states[path] = _read_state(path)
        return states

    def _mutex(self) -> FileLock:
        """Return the lock for reading and changing tickets; its ``with`` raises Timeout, an OSError."""
        return FileLock(self.folder / "queue.lock", timeout=MUTEX_TIMEOUT_S, mode=0o600)


class TicketState(BaseModel):
    """The content of a ticket; the defaults stand for an unreadable one, which may be loading any size."""

    model: str = "another model"
    size: int | None = None
    alone: bool = False
    loading: bool = True
    pid: int = 0


class LoadTicket:
    """A place in the queue: a locked file, and a JSON file with its state."""

    def __init__(self, path: Path, state: TicketState) -> None:
        """Lock and write the ticket; the caller holds the mutex."""
        self.path, self.state = path, state
        self.lock = FileLock(path, timeout=0, mode=0o600)
        self.lock.acquire()
        self._write()

    def mark_loading(self) -> None:
        """Publish that the holder loads; the caller holds the mutex."""
        self.state.loading = True
        self._write()

    def remove(self) -> None:
        """Give up the place, even if forked children hold the same lock; the caller holds the mutex."""
        _remove(self.path)

    def _write(self) -> None:
        self.path.with_suffix(".json").write_text(self.state.model_dump_json())


def _read_state(path: Path) -> TicketState:
    try:
        return TicketState.model_validate_json(path.with_suffix(".json").read_text())
    except (OSError, ValueError):  # a full disk, a cleaned folder
        return TicketState()


def _remove(path: Path) -> None:
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def free_memory(root: Path = ROOT) -> int:
    """Return the bytes of host memory that are free without swapping, of the machine or of this container (cgroup 2)."""
    machine = _read_kilobytes(root / "proc/meminfo", "MemAvailable:") * 1024
    group = root / "sys/fs/cgroup"
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return machine
    if not limit.isdigit():
        return machine
    return max(0, min(machine, int(limit) - used + _read_kilobytes(group / "memory.stat", "inactive_file")))


def _read_kilobytes(path: Path, name: str) -> int:
    """Return the number after a name in a kernel table; 0 if there is none."""
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_text().splitlines():
            if line.split()[:1] == [name]:
                return int(line.split()[1])
    return 0
