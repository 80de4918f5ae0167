"""Prepares requests outside the event loop: each is opened in one of several threads, then rendered in a single one.

Results reach the event loop in the order in which they were rendered. While more requests are being prepared, the results of
``TOGETHER_S`` seconds arrive with one wake-up, to save thread switches: a request then switches threads three times. With an
``await`` per step, it would switch eight times, each time waiting for the interpreter lock. The threads take requests from
queues, because an executor's future per step would cost as much as a turn of the game.
"""

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
"""Longest wait of a rendered request for others, in seconds: one step of an engine, which takes no requests meanwhile."""

Input = TypeVar("Input")
Opened = TypeVar("Opened")
Rendered = TypeVar("Rendered")


@dataclass(slots=True, eq=False)
class _Job(Generic[Input, Opened, Rendered]):
    """One request in the pipeline, and finally its outcome."""

    request: Input
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Rendered]
    opened: Opened | None = None
    rendered: Rendered | None = None
    problem: BaseException | None = None

    def settle(self) -> None:
        """Settle the future, unless its caller was cancelled."""
        if self.problem is not None and not self.answer.done():
            self.answer.set_exception(self.problem)
        elif not self.answer.done():
            self.answer.set_result(self.rendered)  # type: ignore[arg-type]


class RequestPipeline(Generic[Input, Opened, Rendered]):
    """A pipeline of threads; call ``prepare`` from one event loop at a time."""

    def __init__(
        self, open_request: Callable[[Input], Opened], render: Callable[[Opened], Rendered], threads: int
    ) -> None:
        """``open_request`` runs in ``threads`` threads, ``render`` in one more."""
        self.open_request, self.render, self.threads = open_request, render, threads
        self._to_open: SimpleQueue[_Job[Input, Opened, Rendered] | None] = SimpleQueue()
        self._to_render: SimpleQueue[_Job[Input, Opened, Rendered] | None] = SimpleQueue()
        self._done: deque[_Job[Input, Opened, Rendered]] = deque()
        self._drain_pending = False
        """True while the event loop has a pending call to drain ``_done``."""
        self._drained_at = 0.0
        """Monotonic time of the last drain."""
        self._closed = False
        for number in range(threads):
            Thread(target=self._serve, args=(self._to_open, self._open), name=f"pictures_{number}", daemon=True).start()
        Thread(target=self._serve, args=(self._to_render, self._render), name="render", daemon=True).start()

    async def prepare(self, request: Input) -> Rendered:
        """Open and render a request; raises errors of both functions."""
        loop = asyncio.get_running_loop()
        job: _Job[Input, Opened, Rendered] = _Job(request, loop, loop.create_future())
        self._to_open.put(job)
        return await job.answer

    def close(self) -> None:
        """End the threads; waiting callers get no answer. Safe to call twice."""
        self._closed = True
        for _ in range(self.threads):
            self._to_open.put(None)
        self._to_render.put(None)

    def _serve(
        self,
        waiting: SimpleQueue[_Job[Input, Opened, Rendered] | None],
        step: Callable[[_Job[Input, Opened, Rendered]], None],
    ) -> None:
        while (job := waiting.get()) is not None and not self._closed:
            try:
                step(job)
            except BaseException as problem:  # the caller's to handle
                job.problem = problem
                self._hand_over(job)

    def _open(self, job: _Job[Input, Opened, Rendered]) -> None:
        job.opened = self.open_request(job.request)
        self._to_render.put(job)

    def _render(self, job: _Job[Input, Opened, Rendered]) -> None:
        job.rendered, job.opened = self.render(job.opened), None  # type: ignore[arg-type]
        self._hand_over(job)

    def _hand_over(self, job: _Job[Input, Opened, Rendered]) -> None:
        self._done.append(job)
        others = not (self._to_open.empty() and self._to_render.empty())
        if others and monotonic() - self._drained_at < TOGETHER_S:
            return  # the last of the others wakes the loop
        if not self._drain_pending:
            self._drain_pending = True
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                job.loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._drained_at = monotonic()
        self._drain_pending = False  # before the queue is read: later additions wake the loop again
        while self._done:
            self._done.popleft().settle()
