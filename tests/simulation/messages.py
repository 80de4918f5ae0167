"""Messages of an actor: replies, streams of items, and the count of a lease's results."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Sequence
from typing import Any


class Message:
    """A reply of an actor, as the driver's ``ObjectRef``."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def __await__(self) -> Any:
        return asyncio.shield(self.future).__await__()

    def succeed(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, problem: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(problem)


class Stream:
    """The items of a streaming call, each a message of its own."""

    def __init__(self, backpressure: int) -> None:
        self.backpressure = backpressure
        self.sent: deque[Message] = deque()
        self.changed = asyncio.Event()
        self.ended = False

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Message:
        while not self.sent and not self.ended:
            await self._change()
        if not self.sent:
            raise StopAsyncIteration
        message = self.sent.popleft()
        self.changed.set()
        return message

    async def wait_for_room(self) -> None:
        while self.backpressure and len(self.sent) >= self.backpressure:
            await self._change()

    def put(self, message: Message) -> None:
        if not self.ended:
            self.sent.append(message)
            self.changed.set()

    def end(self, problem: BaseException | None = None) -> None:
        if self.ended:
            return
        if problem is not None:
            message = Message()
            message.fail(problem)
            self.sent.append(message)
        self.ended = True
        self.changed.set()

    async def _change(self) -> None:
        self.changed.clear()
        await self.changed.wait()


class Lease:
    """The items of a lease of a worker, and those that it has sent."""

    def __init__(self, method: str, items: Sequence[Any]) -> None:
        self.method, self.items = method, [getattr(item, "ordinal", item) for item in items]
        self.sent = Counter[int]()

    def take(self, ordinals: Sequence[int]) -> list[tuple[str, int]]:
        """Count a batch's items as sent; return them with the method that made them."""
        self.sent.update(ordinals)
        return [(self.method, ordinal) for ordinal in ordinals]

    def find_faults(self, recalled: Collection[int]) -> list[str]:
        """Return what is wrong at the end of the stream: every item is sent once, or was recalled."""
        twice = [ordinal for ordinal, count in self.sent.items() if count > 1]
        lost, foreign = {*self.items} - {*self.sent} - {*recalled}, {*self.sent} - {*self.items}
        wrong = {"sent twice": twice, "neither sent nor recalled": lost, "not of the lease": foreign}
        return [f"{len(items)} items of a lease are {how}" for how, items in wrong.items() if items]
