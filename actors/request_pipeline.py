"""Prepares requests beside the event loop: each is opened in one of several threads, then rendered in the only one.

Results reach the event loop in the order in which they were rendered, several with one wake-up. A request thus changes
threads three times; an ``await`` for every step would change them eight times, each time waiting for the interpreter lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Opened = TypeVar("Opened")
Rendered = TypeVar("Rendered")


@dataclass(slots=True, eq=False)
class _Job(Generic[Asked, Rendered]):
    """One request on its way, and at last what became of it."""

    asked: Asked
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Rendered]
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

    def __init__(
        self, opened: Callable[[Asked], Opened], threads: Executor, rendered: Callable[[Opened], Rendered]
    ) -> None:
        """``opened`` runs in ``threads``, whose owner ends them; ``rendered`` runs in one thread of the pipeline's own."""
        self.opened, self.threads, self.rendered = opened, threads, rendered
        self.render_thread = ThreadPoolExecutor(1, thread_name_prefix="render")
        self._done: deque[_Job[Asked, Rendered]] = deque()
        self._woken = False
        """Whether the event loop was asked to look at ``_done`` and has not done so yet."""

    async def prepared(self, asked: Asked) -> Rendered:
        """What ``rendered`` makes of what ``opened`` made of a request; raises what they raise."""
        loop = asyncio.get_running_loop()
        job: _Job[Asked, Rendered] = _Job(asked, loop, loop.create_future())
        self.threads.submit(self._open, job)
        return await job.answer

    def close(self) -> None:
        """End the own thread; whoever still waits is not answered. Safe to call twice."""
        self.render_thread.shutdown(wait=False, cancel_futures=True)

    def _open(self, job: _Job[Asked, Rendered]) -> None:
        try:
            opened = self.opened(job.asked)
        except BaseException as problem:  # it is the asker's
            job.problem = problem
            self._hand_over(job)
        else:
            self.render_thread.submit(self._render, job, opened)

    def _render(self, job: _Job[Asked, Rendered], opened: Opened) -> None:
        try:
            job.rendered = self.rendered(opened)
        except BaseException as problem:  # it is the asker's
            job.problem = problem
        self._hand_over(job)

    def _hand_over(self, job: _Job[Asked, Rendered]) -> None:
        self._done.append(job)
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                job.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._woken = False  # before the queue is looked at: what is appended from now on wakes the loop again
        while self._done:
            self._done.popleft().tell()
