"""Works through the items of one lease with many in flight, and hands over the results in batches.

Every leased item leaves in exactly one batch or is recalled before it is begun, or working through the lease raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

BATCH_EPISODES = 64
"""Results a batch holds: enough that a message per batch costs little, small enough to stay inlined in Ray (100 KB)."""
MAX_BATCH_AGE_S = 1.0
"""Seconds after which a batch that is not full is sent all the same, so that a crash loses little."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Batch = TypeVar("Batch")
Added = TypeVar("Added", contravariant=True)
Built = TypeVar("Built", covariant=True)


class BatchRows(Protocol[Added, Built]):
    """What collects results until they leave as one batch (``actors.playing.records.EpisodeRows``, ``VerdictRows``)."""

    def __len__(self) -> int: ...
    def add(self, result: Added, /) -> None: ...
    def batch(self) -> Built: ...


class LeaseState(Generic[Item, Result, Batch]):
    """What the lanes of one lease share: the items left, the rows of the open batch, the queue of full batches."""

    def __init__(
        self,
        items: Sequence[Item],
        work: Callable[[Item], Awaitable[Result]],
        rows: Callable[[], BatchRows[Result, Batch]],
    ) -> None:
        """``work`` makes an item's result, ``rows`` opens an empty batch."""
        self.items, self.work, self.new_rows = items, work, rows
        self._left = iter(items)
        self._recalled: set[Item] = set()
        self._rows = rows()
        self._full: asyncio.Queue[Batch | None] = asyncio.Queue(maxsize=4)

    async def batches(self, in_flight: int) -> AsyncIterator[Batch]:
        """Batches of results in the order in which they finish, with at most ``in_flight`` items at work.

        Raises BackendDied, or the bug that stopped a lane; what was finished before is yielded first.
        """
        lanes = [asyncio.create_task(self._lane()) for _ in range(min(in_flight, len(self.items)))]
        closing = asyncio.create_task(self._close_after(lanes))
        try:
            while (batch := await self._next()) is not None:
                yield batch
            if len(self._rows):
                yield self._take()
            await closing
        finally:
            for task in (*lanes, closing):
                task.cancel()
            await asyncio.gather(*lanes, closing, return_exceptions=True)

    def recall(self, items: Collection[Item]) -> None:
        """Leave out those of the items that are not begun."""
        self._recalled.update(items)

    async def _lane(self) -> None:
        for item in self._left:
            if item in self._recalled:
                continue
            outcome = await self.work(item)
            self._rows.add(outcome)  # looked up after the await: another lane may have closed the batch meanwhile
            if len(self._rows) >= BATCH_EPISODES:
                await self._full.put(self._take())

    def _take(self) -> Batch:
        """The open batch; a new one is opened."""
        rows, self._rows = self._rows, self.new_rows()
        return rows.batch()

    async def _next(self) -> Batch | None:
        """The next full batch, or after ``MAX_BATCH_AGE_S`` the open one; None when every lane has ended."""
        while True:
            try:
                return await asyncio.wait_for(self._full.get(), MAX_BATCH_AGE_S)
            except TimeoutError:
                if len(self._rows):
                    return self._take()

    async def _close_after(self, lanes: Iterable[asyncio.Task[None]]) -> None:
        """Mark the end of the queue once every lane ended, or one failed; then raise what it raised."""
        try:
            await asyncio.gather(*lanes)
        finally:
            await self._full.put(None)
