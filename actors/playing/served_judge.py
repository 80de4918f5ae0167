"""A judge with an engine of its own that other workers ask turn by turn: its worker's side, and theirs.

Every request is answered once or raises. One whose judge died is asked again, alone of its worker; one that ``MAX_DEATHS``
judges died with ends as unprocessable, so that an answer that kills engines does not stop a sweep.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from typing import Any

from actors.engine.backend import Backend, BackendDied, Reply, Request, Unprocessable

HEARTBEAT_S = 5.0
"""Seconds between two signs of life of a judge's worker."""
MAX_DEATHS = 3
"""Workers of the judge that died with a request before it is set aside."""


class ServedJudge:
    """The judge's side: its engine, and what waits there for an answer."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.waiting = self.answered = 0
        self._died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def reply(self, request: Request) -> Reply:
        """As the engine's own ``reply``."""
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
        """Requests answered since the last time, every ``HEARTBEAT_S``; nothing while some wait and none is answered.

        That is a hung engine. Raises BackendDied at once when the engine has died.
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
    """The side of a worker that plays: a backend that asks the judge's workers of the moment, the least busy one first."""

    def __init__(self, *died: type[Exception]) -> None:
        """``died``: what a call raises whose worker is gone, beside BackendDied."""
        self.died: tuple[type[Exception], ...] = (BackendDied, *died)
        self.workers: dict[int, Any] = {}
        """Slot -> handle of an actor whose ``reply`` is ``ServedJudge.reply``."""
        self.asked: Counter[int] = Counter()
        """Slot -> requests of this worker that wait there."""
        self._some = asyncio.Condition()
        self._alone = asyncio.Lock()
        """Held by the one request that is asked again after a death."""

    async def set_workers(self, workers: Mapping[int, Any]) -> None:
        """From now on these answer; requests wait while there is none."""
        async with self._some:
            self.workers = dict(workers)
            self._some.notify_all()

    async def reply(self, request: Request) -> Reply:
        """Ask until a judge lives to answer; raises Unprocessable, Refused, or Unprocessable after ``MAX_DEATHS``."""
        for deaths in range(MAX_DEATHS):
            async with self._alone if deaths else nullcontext():
                try:
                    return await self._put(request)
                except self.died:
                    continue
        raise Unprocessable(f"{MAX_DEATHS} workers of its judge died while they read it")

    async def _put(self, request: Request) -> Reply:
        async with self._some:
            await self._some.wait_for(lambda: self.workers)
        slot = min(self.workers, key=lambda slot_number: (self.asked[slot_number], slot_number))
        worker = self.workers[slot]
        self.asked[slot] += 1
        try:
            reply: Reply = await worker.reply.remote(request)
            return reply
        except self.died:
            self.workers.pop(slot, None)
            raise
        finally:
            self.asked[slot] -= 1

    async def close(self) -> None:
        """Ask nobody any more; the judge's workers are the driver's to end."""
        self.workers = {}
