"""Processes the items of one lease concurrently and yields the results in batches.

Every leased item is yielded in exactly one batch or recalled before it begins, or ``batches`` raises.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from typing import Generic, TypeVar

BATCH_EPISODES = 256
"""Results per batch: enough to make a message cheap, few enough that little waits."""
MIN_BATCH_AGE_S = 1.0
"""Fewest seconds after which a batch is sent although it is not full; short, so that a crash loses little."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Batch = TypeVar("Batch")


class LeaseState(Generic[Item, Result, Batch]):
    """State shared by the lanes (concurrent tasks) of a lease: remaining items, the open batch, and the queue of full batches."""

    def __init__(
        self,
        items: Sequence[Item],
        work: Callable[[Item], Awaitable[Result]],
        build_batch: Callable[[list[Result]], Batch],
        batch_age: float = 0.0,
    ) -> None:
        """``batch_age``: seconds after which a batch is sent although it is not full, at least ``MIN_BATCH_AGE_S``."""
        self.batch_age = max(batch_age, MIN_BATCH_AGE_S)
        self.items, self.work, self.build_batch = items, work, build_batch
        self._remaining = iter(items)
        self._recalled: set[Item] = set()
        self._results: list[Result] = []
        self._full: asyncio.Queue[Batch | None] = asyncio.Queue(maxsize=4)

    async def batches(self, in_flight: int) -> AsyncIterator[Batch]:
        """Yield results in the order in which they finish, with at most ``in_flight`` items in progress.

        Raises BackendDied, or the bug that stopped a lane, after yielding the results that are ready.
        """
        lanes = [asyncio.create_task(self._run_lane()) for _ in range(min(in_flight, len(self.items)))]
        closing = asyncio.create_task(self._close_after(lanes))
        try:
            while (batch := await self._next_batch()) is not None:
                yield batch
            if self._results:
                yield self._take()
            await closing
        finally:
            for task in (*lanes, closing):
                task.cancel()
            await asyncio.gather(*lanes, closing, return_exceptions=True)

    def recall(self, items: Collection[Item]) -> None:
        """Skip these items unless they have begun."""
        self._recalled.update(items)

    async def _run_lane(self) -> None:
        for item in self._remaining:
            if item in self._recalled:
                continue
            result = await self.work(item)
            self._results.append(result)  # read after the await: another lane may have replaced the list
            if len(self._results) >= BATCH_EPISODES:
                await self._full.put(self._take())

    def _take(self) -> Batch:
        results, self._results = self._results, []
        return self.build_batch(results)

    async def _next_batch(self) -> Batch | None:
        """Return the next full batch, or after ``batch_age`` seconds the open one; None once every lane has ended."""
        while True:
            try:
                return await asyncio.wait_for(self._full.get(), self.batch_age)
            except TimeoutError:
                if self._results:
                    return self._take()

    async def _close_after(self, lanes: Iterable[asyncio.Task[None]]) -> None:
        """Mark the end of the queue once every lane has ended or one has failed; raise the failure."""
        try:
            await asyncio.gather(*lanes)
        finally:
            await self._full.put(None)
