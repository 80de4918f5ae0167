"""An asyncio event loop on virtual time: it never sleeps, runs one step at a time, and can be stopped before any of them."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.virtual_threads import Threads

EPOCH_S = 1_800_000_000.0
"""Seconds since 1970 at which virtual time begins."""
READING_S = 1e-6
"""Seconds that one reading of the clock takes: no two are equal, as on a real machine."""

NEVER = float("inf")


class Stuck(AssertionError):
    """Nothing can happen any more, or the sweep takes longer than it may."""


class VirtualClock:
    """Stands in for the module ``time`` in the simulated process."""

    def __init__(self) -> None:
        self.now = 0.0
        self.deadline = NEVER
        """Virtual time after which the run counts as stuck."""
        self.threads: Threads | None = None
        """Threads of the process besides the main one."""

    def advance(self, seconds: float) -> None:
        """Let time pass in which the other threads get their turns."""
        until = self.now + max(0.0, seconds)
        if self.threads is not None:
            self.threads.run_until(until)
        self.stand_still(until - self.now)

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which nothing of the process runs."""
        self.now += max(0.0, seconds)
        if self.now > self.deadline:
            raise Stuck(f"the sweep has not ended after {self.now:,.0f} s of virtual time")

    def monotonic(self) -> float:
        self.now += READING_S
        return self.now

    perf_counter = monotonic

    def time(self) -> float:
        return EPOCH_S + self.monotonic()

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def date(self, zone: tzinfo) -> datetime:
        """Stands in for ``datetime.now``."""
        return datetime.fromtimestamp(self.time(), zone)

    def sleep(self, seconds: float) -> None:
        if self.threads is None:
            self.advance(seconds)
        else:
            self.threads.wait(seconds)


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address, so that sets of tasks have the same order each time."""

    numbers = itertools.count()

    def __init__(self, coroutine: Any, **options: Any) -> None:
        self._number = next(self.numbers)
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer as soon as nothing is ready."""

    def __init__(self, clock: VirtualClock, before_step: Callable[[], None]) -> None:
        """``before_step`` is called before every callback, so before every step between two awaits; it may raise."""
        super().__init__()
        self.clock, self.before_step = clock, before_step
        NumberedTask.numbers = itertools.count()
        self.set_task_factory(lambda loop, work, **options: NumberedTask(work, loop=loop, **options))  # type: ignore[arg-type]
        self.set_exception_handler(lambda loop, context: None)  # what a killed process left behind

    def time(self) -> float:
        return self.clock.now

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        if not ready:
            self._jump(ready)
        self.before_step()
        if ready:
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _jump(self, ready: Any) -> None:
        """Advance the clock to the next timer and make every timer of that moment ready."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0].cancelled():
            heapq.heappop(timers)
        if self.clock.threads is not None and self.clock.threads.next_turn < (timers[0].when() if timers else NEVER):
            self.clock.advance(self.clock.threads.next_turn - self.clock.now)
            return
        if not timers:
            if not self._stopping:  # type: ignore[attr-defined]
                raise Stuck("every task waits, and no timer is set")
            return
        self.clock.advance(timers[0].when() - self.clock.now)
        while timers and timers[0].when() <= self.clock.now:
            ready.append(heapq.heappop(timers))


class VirtualPolicy(asyncio.DefaultEventLoopPolicy):
    """Gives ``asyncio.run`` a loop on virtual time."""

    def __init__(self, clock: VirtualClock, before_step: Callable[[], None]) -> None:
        super().__init__()
        self.clock, self.before_step = clock, before_step

    def new_event_loop(self) -> VirtualLoop:
        return VirtualLoop(self.clock, self.before_step)
