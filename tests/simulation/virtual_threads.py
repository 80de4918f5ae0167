"""Threads on virtual time: one runs at a time, and hands over only where it waits, so a run is the same each time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.simulation.virtual_time import NEVER, VirtualClock

running: list[VirtualThread] = []
"""The thread whose turn it is; empty if that is the main thread."""


class ThreadKilled(SystemExit):
    """The end of a thread with its process."""


class Threads:
    """The threads of a simulated run; its clock gives each its turn when the time comes for which it waits."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.threads = clock, list[VirtualThread]()
        self.handed_back = threading.Semaphore(0)
        self.faults: list[str] = []
        """Exceptions that ended a thread."""
        clock.threads = self

    @property
    def next_turn(self) -> float:
        return min((thread.wakes_at for thread in self.threads), default=NEVER)

    def run_until(self, until: float) -> None:
        """Give each thread the turns that come until then, earliest first; in another thread than the main one do nothing."""
        while not running and self.next_turn <= until:
            thread = min(self.threads, key=lambda thread: thread.wakes_at)
            self.clock.stand_still(thread.wakes_at - self.clock.now)
            thread.take_turn()

    def wait(self, seconds: float, event: VirtualEvent | None = None) -> None:
        """Let virtual time pass in the thread that calls, at most until the event is set."""
        if running:
            running[-1].hand_over(self.clock.now + seconds, event)
            return
        until = self.clock.now + seconds
        while not (event is not None and event.is_set()) and self.clock.now < until:
            self.clock.advance(min(until, max(self.next_turn, self.clock.now + 1e-6)) - self.clock.now)

    def kill(self, threads: Callable[[VirtualThread], bool] = lambda thread: True) -> None:
        """End threads where they wait, as the end of their process does."""
        for thread in [thread for thread in self.threads if threads(thread)]:
            thread.killed, thread.wakes_at = True, self.clock.now
            while not running and thread in self.threads:
                thread.take_turn()

    @contextmanager
    def closed_at_the_end(self) -> Iterator[None]:
        """Leave no real thread behind."""
        try:
            yield
        finally:
            self.kill()
            self.clock.threads = None


class VirtualThread:
    """Stands in for ``threading.Thread``."""

    def __init__(
        self, threads: Threads, target: Callable[..., object], args: tuple[Any, ...] = (), name: str = ""
    ) -> None:
        self.threads, self.target, self.args, self.name = threads, target, args, name
        self.wakes_at, self.killed, self.awaited = NEVER, False, None
        self.awaited: VirtualEvent | None
        self._turn = threading.Semaphore(0)
        self._real = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self.wakes_at = self.threads.clock.now
        self.threads.threads.append(self)
        self._real.start()

    def join(self, timeout: float | None = None) -> None:
        until = self.threads.clock.now + (NEVER if timeout is None else timeout)
        while self.is_alive() and self.threads.clock.now < until and self.wakes_at < NEVER:
            self.threads.wait(max(1e-6, min(self.wakes_at, until) - self.threads.clock.now))

    def is_alive(self) -> bool:
        return self in self.threads.threads

    def take_turn(self) -> None:
        """Let the thread run until it waits again or ends; the main thread calls this."""
        running.append(self)
        self.wakes_at, self.awaited = NEVER, None
        self._turn.release()
        self.threads.handed_back.acquire()
        running.pop()

    def hand_over(self, until: float, event: VirtualEvent | None) -> None:
        """Wait for the next turn, which comes at this time or when the event is set; the thread itself calls this."""
        if self.killed:
            raise ThreadKilled
        self.wakes_at, self.awaited = until, event
        self.threads.handed_back.release()
        self._turn.acquire()
        if self.killed:
            raise ThreadKilled

    def _work(self) -> None:
        self._turn.acquire()
        try:
            if not self.killed:
                self.target(*self.args)
        except SystemExit:
            pass
        except BaseException as problem:
            self.threads.faults.append(f"the thread {self.name} ended with {type(problem).__name__}: {problem}")
        self.threads.threads.remove(self)
        self.threads.handed_back.release()


class VirtualEvent:
    """Stands in for ``threading.Event``."""

    def __init__(self, threads: Threads) -> None:
        self.threads, self._is_set = threads, False

    def set(self) -> None:
        self._is_set = True
        for thread in self.threads.threads:
            if thread.awaited is self:
                thread.wakes_at = self.threads.clock.now

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float = NEVER) -> bool:
        if not self._is_set:
            self.threads.wait(timeout, self)
        return self._is_set


class ThreadingModule:
    """Stands in for the module ``threading``."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads

    def Thread(
        self, target: Callable[..., object], args: tuple[Any, ...] = (), name: str = "", daemon: bool = True
    ) -> Any:
        return VirtualThread(self.threads, target, args, name)

    def Event(self) -> VirtualEvent:
        return VirtualEvent(self.threads)


class SerialPool:
    """Stands in for ``ThreadPoolExecutor``: one call after the other."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __enter__(self) -> SerialPool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    map = staticmethod(map)
