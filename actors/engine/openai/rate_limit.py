"""Rate limit and budget of a service, shared by all callers of a process."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from random import Random
from time import monotonic, time
from typing import NamedTuple

from actors.engine.backend import BudgetSpent

FIRST_ALLOWED = 4
"""Requests in flight at first; they double with every round trip until the service throttles."""
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.5, 60.0
"""Smallest and largest upper bound of a back-off, in seconds."""


@dataclass(eq=False)
class RetryableError(Exception):
    """A failure after which the request is retried."""

    reason: str
    rest: float | None = None
    """Seconds that the service asks to wait."""
    throttled: bool = False
    """True if the service refused because it gets too many requests (HTTP 429)."""
    unreadable: bool = False
    """True if the service answered, but the answer violates the protocol."""


class ReservationKind(Enum):
    """The purpose of a reservation; batches (``actors.engine.openai.batch_backend``) report their cost later."""

    SINGLE = "no"
    """A single request."""
    NEW = "new"
    """A new batch, whose ceiling is known without an earlier answer."""
    SENT = "sent"
    """A batch that is already sent and must be paid, whatever is left."""


class Price(NamedTuple):
    """The most that a request may cost: its longest reply, and an estimate of its prompt (earlier answers correct that)."""

    reply: float
    text: float = 0.0
    pictures: float = 0.0

    @property
    def kind(self) -> str:
        """The part of the prompt whose true cost the answer reveals."""
        return "pictures" if self.pictures else "text"


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
            await self._rest(chance)
            yield self.reductions
        finally:
            async with self.free:
                self.in_flight -= 1
                self.free.notify(2)  # this place, and one that ``speed_up`` may have added

    async def _rest(self, chance: Random) -> None:
        while (seconds := self.resting_until - monotonic()) > 0:
            await asyncio.sleep(seconds + chance.uniform(0, min(seconds, 1.0)))

    def set_limit(self, max_in_flight: int) -> None:
        """Change the maximum of requests in flight."""
        self.max_in_flight, self.allowed = max_in_flight, min(self.allowed, float(max_in_flight))

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


class Budget:
    """The money for one model or several: a request is sent only if the most that it may cost is left."""

    def __init__(self, max_cost: float | None, model: str) -> None:
        self.max_cost = math.inf if max_cost is None else max_cost
        self.model = model
        self.spent = 0.0
        self.ratios: dict[tuple[str, str], float] = {}
        """(model, ``text`` or ``pictures``) -> highest ratio of true to estimated cost in the answers so far; before the first
        answer, such requests are sent one by one."""
        self.reserved: list[tuple[str, Price]] = []
        """Model and price of the requests in flight; their ceilings rise with the ratios."""
        self.changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(
        self, price: Price, kind: ReservationKind = ReservationKind.SINGLE, model: str = ""
    ) -> AsyncIterator[None]:
        """Reserve the most that a request may cost while it runs; a budget for several models needs ``model``.

        Waits for other reservations to end; raises BudgetSpent if too little is left even then.
        """
        request = (model or self.model, price)

        def is_next() -> bool:
            price_known = kind is ReservationKind.NEW or (request[0], price.kind) in self.ratios
            return not self.reserved or math.isinf(self.max_cost) or (price_known and self._fits(request))

        async with self.changed:
            if kind is not ReservationKind.SENT:
                await self.changed.wait_for(is_next)
                if not self._fits(request):
                    raise BudgetSpent(f"{self.model}: {self.spent:.4f} of max_cost = {self.max_cost:g} is spent")
            self.reserved.append(request)
        try:
            yield
        finally:
            async with self.changed:
                self.reserved.remove(request)
                self.changed.notify_all()

    def pay(self, cost: float, price: Price | None = None, prompt_cost: float = 0.0, model: str = "") -> None:
        """Charge the cost of an answer; ``price`` was reserved for it, and ``prompt_cost`` is the prompt's part of the cost."""
        self.spent += cost
        if price is not None:
            key = (model or self.model, price.kind)
            true_cost, estimate = (
                (prompt_cost - price.text, price.pictures) if price.pictures else (prompt_cost, price.text)
            )
            self.ratios[key] = max(self.ratios.get(key, 0.0), true_cost / estimate if estimate else 0.0)

    def pay_cut_off(self, price: Price) -> None:
        """Charge the most that a request may cost: it was cut off in flight, and the service may bill it."""
        self.spent += self.ceiling(self.model, price)

    async def raise_spent_to(self, cost: float) -> None:
        """Record that the service reports at least this cost in total."""
        self.spent = max(self.spent, cost)

    def ceiling(self, model: str, price: Price) -> float:
        """Return the most that a request may cost, corrected by earlier answers; before the first, only its reply counts."""
        if (model, price.kind) not in self.ratios:
            return price.reply
        text, pictures = (self.ratios.get((model, part), 1.0) for part in ("text", "pictures"))
        return price.reply + price.text * text + price.pictures * pictures

    def _fits(self, request: tuple[str, Price]) -> bool:
        if math.isinf(self.max_cost):
            return True
        return self.spent + sum(self.ceiling(*reserved) for reserved in (*self.reserved, request)) <= self.max_cost


def backoff(failures: int, chance: Random) -> float:
    """Return the seconds to wait after this many failures: full jitter below a bound that doubles up to a minute."""
    return chance.uniform(0, min(MAX_BACKOFF_S, MIN_BACKOFF_S * 2.0 ** min(failures, 16)))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a service asks to wait (``retry-after-ms``, else ``retry-after``); None if it does not ask."""
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
