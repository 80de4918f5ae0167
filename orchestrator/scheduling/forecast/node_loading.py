"""Simulates engines that load on one node: they share its disk and compile cache, and take turns as ``LoadQueue`` makes them.

Meanwhile the weights of models that wait for GPUs are prepared, as ``WeightsAhead`` does. Weights that the node has read once
stay in its memory: the paper's models have some 750 GB, and a DGX H200 has 2 TB.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.commands import Command

DISK_GB_S = 6.5
"""Gigabytes per second that a node's disk reads: one data-center NVMe drive (a DGX H200 has eight in RAID 0)."""

Event = Callable[[], Sequence[Command]]
"""A function that the simulation calls at the event's time; returns the commands that follow."""


@dataclass(frozen=True, slots=True)
class EngineStart:
    """One replica's start."""

    slot: int
    group: str
    alone: bool
    """True if no other engine may load at the same time, because this one uses a part of a GPU or several nodes."""
    phases: StartPhases
    weights: float
    """Gigabytes of weights."""
    ready: Event
    """Happens when the replica is ready."""

    @property
    def pace(self) -> float:
        """Gigabytes per second that it reads if nothing else reads."""
        return self.weights / self.phases.read if self.phases.read else 0.0


class NodeLoading:
    """The starts on one node; they share its disk, and only a model's first start downloads and compiles."""

    def __init__(self, at: Callable[[float, Event], None], clock: Callable[[], float], disk: float = DISK_GB_S) -> None:
        """Start without engines; ``at`` schedules an event at a time of ``clock``; ``disk``: gigabytes per second."""
        self._at, self._clock, self._disk = at, clock, disk
        self._waiting: deque[EngineStart] = deque()
        self._loading: dict[int, EngineStart] = {}
        self._unread: dict[int, float] = {}
        """Slot -> seconds that it would read on if nothing else read."""
        self._in_memory: set[str] = set()
        """Groups whose weights the node has read."""
        self._read_until = 0.0
        """Time up to which ``_unread`` is computed."""
        self._downloaded: set[str] = set()
        self._compiled: set[str] = set()
        """Groups whose kernels are compiled on the node."""
        self._prepared: EngineStart | None = None
        """A start that has no GPU yet and whose weights are being prepared."""
        self._change = 0
        """Counts changes in who reads; the end of a read that was planned before the last change is ignored."""

    def join(self, start: EngineStart) -> None:
        self._waiting.append(start)
        self._begin_next()

    def leave(self, slot: int) -> None:
        """Forget a replica that is ready or gone."""
        self._advance_reads()
        self._unread.pop(slot, None)
        self._loading.pop(slot, None)
        self._waiting = deque(start for start in self._waiting if start.slot != slot)
        self._plan_read_end()
        self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting and not self._must_wait(self._waiting[0]):
            start = self._waiting.popleft()
            self._loading[start.slot] = start
            self._download(start)

    def prepare(self, start: EngineStart) -> None:
        """Download and read the weights of a start that has no GPU yet, unless another one is being prepared."""
        if self._prepared is None and start.group not in self._in_memory:
            self._prepared = start
            self._download(start)

    def _download(self, start: EngineStart) -> None:
        seconds = 0.0 if start.group in self._downloaded else start.phases.download
        self._at(self._clock() + seconds, partial(self._begin_reading, start))

    def _must_wait(self, start: EngineStart) -> bool:
        return bool(self._loading) and (start.alone or any(other.alone for other in self._loading.values()))

    def _begin_reading(self, start: EngineStart) -> Sequence[Command]:
        if start.slot in self._loading or start is self._prepared:
            self._downloaded.add(start.group)
            self._advance_reads()
            self._unread[start.slot] = start.phases.read
            self._plan_read_end()
        return []

    def _advance_reads(self) -> None:
        now = self._clock()
        paces = self._paces()
        for slot in self._unread:
            self._unread[slot] -= (now - self._read_until) * paces[slot]
        self._read_until = now

    def _paces(self) -> dict[int, float]:
        """Return slot -> its speed of reading, 1 if it reads alone; replicas of one model share one read from the disk."""
        reading = {slot: self._start_of(slot) for slot in self._unread}
        from_disk = {start.group: start.pace for start in reading.values() if start.group not in self._in_memory}
        shared = min(1.0, self._disk / total) if (total := sum(from_disk.values())) else 1.0
        return {slot: shared if start.group in from_disk else 1.0 for slot, start in reading.items()}

    def _start_of(self, slot: int) -> EngineStart:
        return self._prepared if self._prepared and slot == self._prepared.slot else self._loading[slot]

    def _plan_read_end(self) -> None:
        self._change += 1
        if self._unread:
            paces = self._paces()
            seconds = {slot: max(0.0, unread) / paces[slot] for slot, unread in self._unread.items()}
            slot = min(seconds, key=lambda reader: seconds[reader])
            self._at(self._clock() + seconds[slot], partial(self._end_reading, slot, self._change))

    def _end_reading(self, slot: int, change: int) -> Sequence[Command]:
        if change != self._change:
            return []
        self._advance_reads()
        del self._unread[slot]
        start = self._start_of(slot)
        self._in_memory.add(start.group)
        self._plan_read_end()
        if start is self._prepared:
            self._prepared = None
            return []
        compiling = 0.0 if start.group in self._compiled else start.phases.compile
        self._at(self._clock() + compiling + start.phases.warm, partial(self._end, start))
        return []

    def _end(self, start: EngineStart) -> Sequence[Command]:
        if start.slot not in self._loading:
            return []
        self._compiled.add(start.group)
        self.leave(start.slot)
        return start.ready()
