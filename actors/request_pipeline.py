"""Prepares requests beside the event loop: each is opened in one of several threads, then rendered in the only one.

Results reach the event loop in the order in which they were rendered, those of ``TOGETHER_S`` with one wake-up while others
are still prepared: it then sends them to the engine one after another, instead of changing threads for each. A request changes
threads three times; an ``await`` for every step would change them eight times, each time waiting for the interpreter lock.
The threads take requests from queues: an executor's future for each step would cost as much as a turn of the game.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Generic, TypeVar

TOGETHER_S = 0.03
"""Seconds for which what is rendered waits for company; as long as a step of an engine, which takes no requests meanwhile."""

Asked = TypeVar("Asked")
Opened = TypeVar("Opened")
Rendered = TypeVar("Rendered")


@dataclass(slots=True, eq=False)
class _Job(Generic[Asked, Opened, Rendered]):
    """One request on its way, and at last what became of it."""

    asked: Asked
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Rendered]
    opened: Opened | None = None
    rendered: Rendered | None = None
    problem: BaseException | None = None

    def tell(self) -> None:
        """Settle the future; nobody may wait any more."""
        if self.answer.done():
            return
        if self.problem is not None:
            self.answer.set_exception(self.problem)
        else:
            self.answer.set_result(self.rendered)  # type: ignore[arg-type]


class RequestPipeline(Generic[Asked, Opened, Rendered]):
    """Await ``prepared`` for each request; may be asked from one event loop at a time."""

    def __init__(self, opened: Callable[[Asked], Opened], rendered: Callable[[Opened], Rendered], threads: int) -> None:
        """``opened`` runs in so many ``threads``, ``rendered`` in one more."""
        self.opened, self.rendered, self.threads = opened, rendered, threads
        self._asked: SimpleQueue[_Job[Asked, Opened, Rendered] | None] = SimpleQueue()
        self._opened: SimpleQueue[_Job[Asked, Opened, Rendered] | None] = SimpleQueue()
        self._done: deque[_Job[Asked, Opened, Rendered]] = deque()
        self._woken = False
        """Whether the event loop was asked to look at ``_done`` and has not done so yet."""
        self._told = 0.0
        """When it last looked (``monotonic``)."""
        self._closed = False
        for number in range(threads):
            Thread(target=self._serve, args=(self._asked, self._open), name=f"pictures_{number}", daemon=True).start()
        Thread(target=self._serve, args=(self._opened, self._render), name="render", daemon=True).start()

    async def prepared(self, asked: Asked) -> Rendered:
        """What ``rendered`` makes of what ``opened`` made of a request; raises what they raise."""
        loop = asyncio.get_running_loop()
        job: _Job[Asked, Opened, Rendered] = _Job(asked, loop, loop.create_future())
        self._asked.put(job)
        return await job.answer

    def close(self) -> None:
        """End the threads; whoever still waits is not answered. Safe to call twice."""
        self._closed = True
        for _ in range(self.threads):
            self._asked.put(None)
        self._opened.put(None)

    def _serve(
        self,
        waiting: SimpleQueue[_Job[Asked, Opened, Rendered] | None],
        step: Callable[[_Job[Asked, Opened, Rendered]], None],
    ) -> None:
        while (job := waiting.get()) is not None and not self._closed:
            try:
                step(job)
            except BaseException as problem:  # it is the asker's
                job.problem = problem
                self._hand_over(job)

    def _open(self, job: _Job[Asked, Opened, Rendered]) -> None:
        job.opened = self.opened(job.asked)
        self._opened.put(job)

    def _render(self, job: _Job[Asked, Opened, Rendered]) -> None:
        job.rendered, job.opened = self.rendered(job.opened), None  # type: ignore[arg-type]
        self._hand_over(job)

    def _hand_over(self, job: _Job[Asked, Opened, Rendered]) -> None:
        self._done.append(job)
        others = not (self._asked.empty() and self._opened.empty())
        if others and monotonic() - self._told < TOGETHER_S:
            return  # the last of them looks here again
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                job.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._told = monotonic()
        self._woken = False  # before the queue is looked at: what is appended from now on wakes the loop again
        while self._done:
            self._done.popleft().tell()
