"""Connects a judge that has its own engine with the workers that play: the judge's side and the playing worker's side.

Every request is answered once or raises. If the judge's worker dies, the playing worker sends its requests again, one at a time;
after ``MAX_DEATHS`` deaths a request is unprocessable, so that an answer that kills engines cannot stop a sweep.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any

from actors.engine.backend import Backend, BackendDied, Reply, Request, Unprocessable

HEARTBEAT_S = 5.0
"""Seconds between two heartbeats of a judge's worker."""
MAX_DEATHS = 3
"""Deaths of judge workers during one request after which it is unprocessable."""


class ServedJudge:
    """The judge's side: its engine, and the number of waiting and answered requests."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.waiting = self.answered = 0
        self._died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def reply(self, request: Request) -> Reply:
        """Return the engine's reply; if the engine dies, ``heartbeats`` raises the same error."""
        self.waiting += 1
        try:
            return await self.backend.reply(request)
        except BackendDied as death:
            if not self._died.done():
                self._died.set_exception(death)
            raise
        finally:
            self.waiting -= 1
            self.answered += 1

    async def heartbeats(self) -> AsyncIterator[int]:
        """Yield, every ``HEARTBEAT_S``, the number of requests answered since the last heartbeat.

        Yield nothing while the engine hangs: requests wait, and none is answered. Raises BackendDied as soon as the engine dies.
        """
        reported = 0
        while True:
            ended, _ = await asyncio.wait({self._died}, timeout=HEARTBEAT_S)
            for death in ended:
                death.result()
            if not self.waiting or self.answered > reported:
                newly_answered, reported = self.answered - reported, self.answered
                yield newly_answered


class RemoteJudge(Backend):
    """The playing worker's side: a backend that sends each request to the least busy worker of the judge."""

    def __init__(self, *death_errors: type[Exception]) -> None:
        """``death_errors``: errors that a call to a dead worker raises, in addition to BackendDied."""
        self.death_errors: tuple[type[Exception], ...] = (BackendDied, *death_errors)
        self.workers: dict[int, Any] = {}
        """Slot -> handle of an actor whose ``reply`` is ``ServedJudge.reply``."""
        self.in_flight: Counter[int] = Counter()
        """Slot -> number of requests that this playing worker has sent there and that wait for a reply."""
        self._workers_changed = asyncio.Condition()
        self._retry_lock = asyncio.Lock()
        """Held by the request that is being sent again after a death."""

    async def set_workers(self, workers: Mapping[int, Any]) -> None:
        """Replace the workers that answer; requests wait while there is none."""
        async with self._workers_changed:
            self.workers = dict(workers)
            self._workers_changed.notify_all()

    async def reply(self, request: Request) -> Reply:
        """Return a worker's reply; if it dies, ask another. Raises Refused, and Unprocessable (also after ``MAX_DEATHS``)."""
        for deaths in range(MAX_DEATHS):
            async with self._retry_lock if deaths else nullcontext():
                with suppress(*self.death_errors):
                    return await self._send(request)
        raise Unprocessable(f"{MAX_DEATHS} workers of the judge died while reading this answer")

    async def _send(self, request: Request) -> Reply:
        async with self._workers_changed:
            await self._workers_changed.wait_for(lambda: self.workers)
        slot = min(self.workers, key=lambda slot: (self.in_flight[slot], slot))
        self.in_flight[slot] += 1
        try:
            reply: Reply = await self.workers[slot].reply.remote(request)
            return reply
        except self.death_errors:
            self.workers.pop(slot, None)
            raise
        finally:
            self.in_flight[slot] -= 1

    async def close(self) -> None:
        """Forget the judge's workers, which the driver stops."""
        self.workers = {}
