"""Prepares requests outside the event loop: each is opened in one of several threads, then rendered by one thread at a time.

Results reach the event loop in the order in which they were rendered. A request switches threads twice: with an ``await`` per
step it would do so four times, each time waiting for the interpreter lock.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

Input = TypeVar("Input")
Opened = TypeVar("Opened")
Rendered = TypeVar("Rendered")


class RequestPipeline(Generic[Input, Opened, Rendered]):
    """A pipeline of threads; call ``prepare`` from one event loop at a time."""

    def __init__(
        self, open_request: Callable[[Input], Opened], render: Callable[[Opened], Rendered], threads: int
    ) -> None:
        """``open_request`` runs in ``threads`` threads at once, ``render`` in one of them at a time."""
        self.open_request, self.render, self._rendering = open_request, render, Lock()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="prepare")

    async def prepare(self, request: Input) -> Rendered:
        """Open and render a request; raises errors of both functions."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Rendered] = loop.create_future()
        self._threads.submit(self._prepare, request, loop, answer)
        return await answer

    def close(self) -> None:
        """End the threads; waiting callers get no answer. Safe to call twice."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, request: Input, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Rendered]) -> None:
        def settle(set_outcome: Callable[[], None]) -> None:
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                loop.call_soon_threadsafe(lambda: None if answer.done() else set_outcome())

        try:
            opened = self.open_request(request)
            with self._rendering:  # also while the result is handed over, which keeps the order
                rendered = self.render(opened)
                settle(lambda: answer.set_result(rendered))
        except BaseException as problem:  # the caller's to handle
            error = problem
            settle(lambda: answer.set_exception(error))
