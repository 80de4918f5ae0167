"""A judge with its own engine that serves other workers: the judge's side and the playing worker's side.

Every request is answered once or raises. If its judge dies, the request is sent again, one at a time per worker; after
``MAX_DEATHS`` deaths it is unprocessable, so that an answer that kills engines cannot stop a sweep.
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
        """Answer with the engine; remember its death for ``heartbeats``."""
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
        """Yield every ``HEARTBEAT_S`` the requests answered since the last heartbeat; nothing while the engine hangs.

        It hangs if requests wait and none is answered. Raises BackendDied as soon as the engine dies.
        """
        reported = 0
        while True:
            ended, _ = await asyncio.wait({self._died}, timeout=HEARTBEAT_S)
            for death in ended:
                death.result()
            if not self.waiting or self.answered > reported:
                fresh, reported = self.answered - reported, self.answered
                yield fresh


class RemoteJudge(Backend):
    """The playing worker's side: a backend that sends each request to the least busy worker of the judge."""

    def __init__(self, *died: type[Exception]) -> None:
        """``died``: the errors of a call to a dead worker, in addition to BackendDied."""
        self.died: tuple[type[Exception], ...] = (BackendDied, *died)
        self.workers: dict[int, Any] = {}
        """Slot -> handle of an actor whose ``reply`` is ``ServedJudge.reply``."""
        self.in_flight: Counter[int] = Counter()
        """Slot -> requests of this worker that wait there."""
        self._workers_changed = asyncio.Condition()
        self._retry_lock = asyncio.Lock()
        """Held by the one request that is sent again after a death."""

    async def set_workers(self, workers: Mapping[int, Any]) -> None:
        """Replace the workers that answer; requests wait while there is none."""
        async with self._workers_changed:
            self.workers = dict(workers)
            self._workers_changed.notify_all()

    async def reply(self, request: Request) -> Reply:
        """Answer, with another worker if one dies; raises Refused, or Unprocessable (also after ``MAX_DEATHS``)."""
        for deaths in range(MAX_DEATHS):
            async with self._retry_lock if deaths else nullcontext():
                with suppress(*self.died):
                    return await self._send(request)
        raise Unprocessable(f"{MAX_DEATHS} workers of its judge died while they read it")

    async def _send(self, request: Request) -> Reply:
        async with self._workers_changed:
            await self._workers_changed.wait_for(lambda: self.workers)
        slot = min(self.workers, key=lambda number: (self.in_flight[number], number))
        self.in_flight[slot] += 1
        try:
            reply: Reply = await self.workers[slot].reply.remote(request)
            return reply
        except self.died:
            self.workers.pop(slot, None)
            raise
        finally:
            self.in_flight[slot] -= 1

    async def close(self) -> None:
        """Forget the judge's workers, which the driver ends."""
        self.workers = {}
