"""Rate limit and budget of a service: how many requests may be in flight, from when, and what they may cost in all.

Both hold for all callers of a process together.

Two more errors of the tree in ``actors.backend`` live here: a model that nobody can ask any more, for a reason that a
new worker would not cure::

    BackendError
    └── ModelStopped    key refused, quota used up, no such model: the model's unplayed episodes stay pending
        └── BudgetSpent     ``max_cost`` is reached
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from enum import Enum
from random import Random
from time import monotonic, time

from actors.backend import BackendError

FIRST_ALLOWED = 4
"""Requests in flight before anything is known; doubles with every round until the first refusal."""
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.5, 60.0
"""Seconds: the first ceiling of the back-off, and the last."""


class ModelStopped(BackendError):
    """This model can be asked no more, and a new worker would not help."""


class BudgetSpent(ModelStopped):
    """The next request could cost more than is left."""


class Batched(Enum):
    """Whether what is set aside is for a batch (``actors.openai_batch``), whose cost the service tells whoever asks later."""

    NO = "no"
    NEW = "new"
    """Its ceiling is known without an earlier answer."""
    SENT = "sent"
    """It is out already and will be paid, whatever is left."""


class Pace:
    """How many requests may be in flight, and from when: grows by one a round, halves when the service says slower."""

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        self.allowed = float(min(max_in_flight, FIRST_ALLOWED))
        self.in_flight = 0
        self.resting_until = 0.0
        """On the monotonic clock: nobody asks before."""
        self.round = 0
        """Rises when the pace is cut: requests sent before a cut do not cut again."""
        self.free = asyncio.Condition()

    @asynccontextmanager
    async def slot(self, chance: Random) -> AsyncIterator[int]:
        """One request's place among those in flight; gives the round it belongs to.

        ``chance`` spreads callers that rested together.
        """
        # The condition's lock is never held across an await, so that leaving cannot be interrupted half way.
        async with self.free:
            await self.free.wait_for(lambda: self.in_flight < int(self.allowed))
            self.in_flight += 1
        try:
            await self._rest(chance)
            yield self.round
        finally:
            async with self.free:
                self.in_flight -= 1
                self.free.notify(2)  # its own place, and the one that growth may have added

    async def _rest(self, chance: Random) -> None:
        while (left := self.resting_until - monotonic()) > 0:
            await asyncio.sleep(left + chance.uniform(0, min(left, 1.0)))

    def bound(self, max_in_flight: int) -> None:
        """Another most for requests in flight."""
        self.max_in_flight, self.allowed = max_in_flight, min(self.allowed, float(max_in_flight))

    def answered(self) -> None:
        """The service kept up."""
        growth = 1.0 if self.round == 0 else 1.0 / self.allowed
        self.allowed = min(float(self.max_in_flight), self.allowed + growth)

    def slower(self, round_: int, rest: float) -> None:
        """The service refused for its rate: everybody rests ``rest`` seconds, and fewer go on."""
        self.resting_until = max(self.resting_until, monotonic() + rest)
        if round_ == self.round:
            self.round += 1
            self.allowed = max(1.0, self.allowed / 2)


class Budget:
    """Money: a request is let through only if what it may cost at most is still there."""

    def __init__(self, max_cost: float | None, model: str) -> None:
        self.max_cost = math.inf if max_cost is None else max_cost
        self.model = model
        self.spent = 0.0
        self.price_known = max_cost is None
        """Whether an answer has shown what a prompt costs; until then requests go one by one."""
        self.reserved: list[Callable[[], float]] = []
        """The ceilings of the requests in flight; they rise when a dearer prompt is seen."""
        self.changed = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, ceiling: Callable[[], float], batch: Batched = Batched.NO) -> AsyncIterator[None]:
        """Set the most that a request may cost aside while it runs.

        Waits for what others have set aside; raises BudgetSpent when too little is left even then.
        """
        async with self.changed:
            if batch is not Batched.SENT:
                await self.changed.wait_for(
                    lambda: ((self.price_known or batch is Batched.NEW) and self._fits(ceiling)) or not self.reserved
                )
            if batch is not Batched.SENT and not self._fits(ceiling):
                raise BudgetSpent(f"{self.model}: {self.spent:.4f} of max_cost = {self.max_cost:g} is spent")
            self.reserved.append(ceiling)
        try:
            yield
        finally:
            async with self.changed:
                self.reserved.remove(ceiling)
                self.changed.notify_all()

    def pay(self, cost: float) -> None:
        """Charge what an answer cost."""
        self.spent += cost
        self.price_known = True

    async def at_least(self, cost: float) -> None:
        """The service says that so much was spent in all."""
        self.spent = max(self.spent, cost)

    def _fits(self, ceiling: Callable[[], float]) -> bool:
        if math.isinf(self.max_cost):
            return True
        return self.spent + sum(reserved() for reserved in self.reserved) + ceiling() <= self.max_cost


def backoff(failures: int, chance: Random) -> float:
    """Seconds to wait after ``failures`` failures: full jitter under a ceiling that doubles up to a minute."""
    return chance.uniform(0, min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2.0 ** min(failures, 16)))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a service asks to wait: ``retry-after-ms``, else ``retry-after`` (seconds or a date), else None."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (text := headers.get(header)) is not None and (wait := _seconds(text, unit)) is not None:
            return min(max(wait, 0.0), MAX_BACKOFF_S * 10)
    return None


def _seconds(text: str, unit: float) -> float | None:
    try:
        value = float(text) * unit
    except ValueError:
        try:
            value = parsedate_to_datetime(text).timestamp() - time()
        except (TypeError, ValueError, OverflowError):
            return None
    return value if math.isfinite(value) else None
