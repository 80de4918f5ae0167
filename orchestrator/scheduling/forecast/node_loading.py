"""Engines that load on one simulated node: in turn as by ``LoadQueue``, over one disk, with one compile cache."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.commands import Command

Event = Callable[[], Sequence[Command]]


@dataclass(frozen=True, slots=True)
class EngineStart:
    """One replica's start."""

    slot: int
    group: str
    alone: bool
    """True if no other engine may load meanwhile, since it uses several GPUs."""
    phases: StartPhases
    ready: Event


class NodeLoading:
    """The starts on one node: whoever reads shares its disk evenly, and a model's first start compiles and downloads."""

    def __init__(self, at: Callable[[float, Event], None], clock: Callable[[], float]) -> None:
        """``at`` lets an event happen at a time of ``clock``."""
        self._at, self._clock = at, clock
        self._waiting: deque[EngineStart] = deque()
        self._loading: dict[int, EngineStart] = {}
        self._unread: dict[int, float] = {}
        """Slot -> seconds that the whole disk would take for what it has not read."""
        self._read_until = 0.0
        self._cached: set[str] = set()
        """Groups whose weights and compiled kernels are on the node."""
        self._change = 0
        """Number of the last change of who reads; an event of an earlier one is void."""

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
            first = start.group not in self._cached
            self._at(self._clock() + (start.phases.download if first else 0.0), partial(self._begin_reading, start))

    def _must_wait(self, start: EngineStart) -> bool:
        return bool(self._loading) and (start.alone or any(other.alone for other in self._loading.values()))

    def _begin_reading(self, start: EngineStart) -> Sequence[Command]:
        if start.slot in self._loading:
            self._advance_reads()
            self._unread[start.slot] = start.phases.read
            self._plan_read_end()
        return []

    def _advance_reads(self) -> None:
        now = self._clock()
        for slot in self._unread:
            self._unread[slot] -= (now - self._read_until) / len(self._unread)
        self._read_until = now

    def _plan_read_end(self) -> None:
        self._change += 1
        if self._unread:
            slot = min(self._unread, key=lambda reader: self._unread[reader])
            end = self._clock() + max(0.0, self._unread[slot]) * len(self._unread)
            self._at(end, partial(self._end_reading, slot, self._change))

    def _end_reading(self, slot: int, change: int) -> Sequence[Command]:
        if change != self._change:
            return []
        self._advance_reads()
        del self._unread[slot]
        self._plan_read_end()
        start = self._loading[slot]
        compiling = 0.0 if start.group in self._cached else start.phases.compile
        self._at(self._clock() + compiling + start.phases.warm, partial(self._end, start))
        return []

    def _end(self, start: EngineStart) -> Sequence[Command]:
        if start.slot not in self._loading:
            return []
        self._cached.add(start.group)
        self.leave(start.slot)
        return start.ready()
