"""The pace of a service's requests, shared by all callers of a process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from time import monotonic

FIRST_ALLOWED = 4
"""Requests in flight at first; they double with every round trip until the service throttles."""


@dataclass(eq=False)
class RetryableError(Exception):
    """A failure after which the request is retried."""

    reason: str
    rest: float | None = None
    """Seconds to wait; None waits longer after each failure."""


class Throttled(RetryableError):
    """A refusal because the service gets too many requests."""


class Pace:
    """The number of requests allowed in flight: it grows by one per round trip and halves when the service throttles."""

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        self.allowed = float(min(max_in_flight, FIRST_ALLOWED))
        self.in_flight = 0
        self.resting_until = 0.0
        """Monotonic time before which no request is sent."""
        self.reductions = 0
        """Number of times that ``allowed`` was halved; a request sent before the last time does not halve it again."""
        self.free = asyncio.Condition()

    @asynccontextmanager
    async def slot(self, chance: Random) -> AsyncIterator[int]:
        """Hold a place among the requests in flight; yield ``reductions``. ``chance`` spreads callers that waited together."""
        # The condition's lock is never held across an await, so that a cancellation cannot interrupt the exit.
        async with self.free:
            await self.free.wait_for(lambda: self.in_flight < int(self.allowed))
            self.in_flight += 1
        try:
            while (seconds := self.resting_until - monotonic()) > 0:
                await asyncio.sleep(seconds + chance.uniform(0, min(seconds, 1.0)))
            yield self.reductions
        finally:
            async with self.free:
                self.in_flight -= 1
                self.free.notify(2)  # this place, and one that ``speed_up`` may have added

    def speed_up(self) -> None:
        """Allow more requests: the service answered."""
        growth = 1.0 if self.reductions == 0 else 1.0 / self.allowed
        self.allowed = min(float(self.max_in_flight), self.allowed + growth)

    def slow_down(self, reductions: int, rest: float) -> None:
        """Pause all requests for ``rest`` seconds; halve ``allowed``, unless it was halved since ``slot`` gave ``reductions``."""
        self.resting_until = max(self.resting_until, monotonic() + rest)
        if reductions == self.reductions:
            self.reductions += 1
            self.allowed = max(1.0, self.allowed / 2)
