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
RETRY_PAUSE_S = 5.0
"""Seconds after which a worker that could not be reached is asked again."""


class ServedJudge:
    """The judge's side: its engine, and the number of waiting and ended requests."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.waiting = self.ended = 0
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
            self.ended += 1

    async def heartbeats(self) -> AsyncIterator[int]:
        """Yield, every ``HEARTBEAT_S``, the number of requests ended since the last heartbeat.

        Yield nothing while the engine hangs: requests wait, and none ends. Raises BackendDied as soon as the engine dies.
        """
        reported = 0
        while True:
            deaths, _ = await asyncio.wait({self._died}, timeout=HEARTBEAT_S)
            for death in deaths:
                death.result()
            if not self.waiting or self.ended > reported:
                newly_ended, reported = self.ended - reported, self.ended
                yield newly_ended


class RemoteJudge(Backend):
    """The playing worker's side: a backend that sends each request to the least busy worker of the judge."""

    def __init__(self, lost: type[Exception], unreachable: type[Exception]) -> None:
        """``lost``: error of a call to a worker that is gone; ``unreachable``: of a call to one that may answer again."""
        self.death_errors, self.unreachable_error = (BackendDied, lost, unreachable), unreachable
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
            async with self._retry_lock if deaths else nullcontext():  # requests are sent again one at a time
                with suppress(*self.death_errors):
                    return await self._send(request)
        raise Unprocessable(f"{MAX_DEATHS} workers of the judge died while reading this answer")

    async def _send(self, request: Request) -> Reply:
        """Return the reply of the least busy worker; an unreachable one counts as dead once the driver has removed it."""
        while True:
            async with self._workers_changed:
                await self._workers_changed.wait_for(lambda: self.workers)
            slot = min(self.workers, key=lambda slot: (self.in_flight[slot], slot))
            self.in_flight[slot] += 1
            try:
                reply: Reply = await self.workers[slot].reply.remote(request)
                return reply
            except self.unreachable_error:
                await asyncio.sleep(RETRY_PAUSE_S)
                if slot not in self.workers:
                    raise
            except self.death_errors:
                self.workers.pop(slot, None)
                raise
            finally:
                self.in_flight[slot] -= 1
