"""The budget of a run: a request is sent only if the money left covers the most that it may cost.

One process holds the ledger (``actors.worker.SharedLedger``). A reply's highest cost is known in advance. For the prompt, the
ledger assumes the dearest one answered so far, and lets a model have at most one more request in flight than it has answers.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

from actors.engine.backend import BudgetSpent


@dataclass
class Bill:
    """The cost of one request up to now."""

    cost: float = 0.0
    prompt_cost: float | None = None
    """Highest prompt cost over its attempts; None before an answer."""
    cut_off: int = 0
    """Attempts that the service may bill without a valid count: cut off in flight, or answered without one."""


class Reservation(NamedTuple):
    """The money held for one request."""

    model: str
    holder: str
    reply_cost: float


class Ledger:
    """The limits of each model and of the sweep, and what is spent and reserved."""

    def __init__(self, limits: Mapping[str, float | None], total: float | None, spent: Mapping[str, float]) -> None:
        """``limits``: model -> ``max_cost``; ``total``: the sweep's limit; ``spent``: model -> cost of earlier attempts."""
        self.limits = {model: math.inf if limit is None else limit for model, limit in limits.items()}
        self.total = math.inf if total is None else total
        self.spent = {model: spent.get(model, 0.0) for model in (*limits, *spent)}
        self.prompt_costs: dict[str, float] = {}
        """Model -> highest cost of a prompt so far."""
        self.answers = Counter[str]()
        self.reserved: dict[str, Reservation] = {}
        self.waiting: set[str] = set()
        self.dead: set[str] = set()
        """Holders that have ended; none of their requests is sent any more."""
        self.changed = asyncio.Condition()

    async def reserve(self, ticket: str, model: str, holder: str, reply_cost: float) -> str:
        """Reserve the most that a request may cost; return why it must not be sent, or an empty string."""
        wanted = Reservation(model, holder, reply_cost)
        self.waiting.add(ticket)
        async with self.changed:
            reason, may_change = self._shortage(wanted)
            while reason and may_change and ticket in self.waiting:
                await self.changed.wait()
                reason, may_change = self._shortage(wanted)
            if ticket in self.waiting and not reason:  # else the caller was cancelled, or the money is spent
                self.reserved[ticket] = wanted
            self.waiting.discard(ticket)
        return reason

    async def release(self, ticket: str, cost: float, prompt_cost: float | None = None, cut_off: int = 0) -> None:
        """End a reservation and charge its bill; a second call changes nothing."""
        async with self.changed:
            self.waiting.discard(ticket)
            if reservation := self.reserved.pop(ticket, None):
                model = reservation.model
                if prompt_cost is not None:
                    self.answers[model] += 1
                    self.prompt_costs[model] = max(prompt_cost, self.prompt_costs.get(model, 0.0))
                self.spent[model] += cost + cut_off * self._ceiling(reservation)
            self.changed.notify_all()

    async def forget(self, holder: str) -> None:
        """Charge the requests of a dead worker with the most that they may cost, and let its waiting ones go."""
        self.dead.add(holder)
        for ticket in [ticket for ticket, reservation in self.reserved.items() if reservation.holder == holder]:
            await self.release(ticket, 0.0, None, 1)

    async def spending(self) -> dict[str, float]:
        """Return model -> money spent, with earlier attempts and the most that requests in flight may cost."""
        spending = dict(self.spent)
        for reservation in self.reserved.values():
            spending[reservation.model] += self._ceiling(reservation)
        return spending

    def _ceiling(self, reservation: Reservation) -> float:
        return reservation.reply_cost + self.prompt_costs.get(reservation.model, 0.0)

    def _shortage(self, wanted: Reservation) -> tuple[str, bool]:
        """Return why a request must not be sent now, and whether requests in flight may change that."""
        if wanted.holder in self.dead:
            return f"the worker {wanted.holder} has ended", False
        model, rivals = wanted.model, list(self.reserved.values())
        own = [rival for rival in rivals if rival.model == model]
        is_unsure = len(own) > self.answers[model]  # of the price of a prompt
        scopes = (
            (model, self.limits[model], self.spent[model], own),
            ("all services", self.total, sum(self.spent.values()), rivals),
        )
        for name, limit, spent, others in scopes:
            needed = spent + sum(map(self._ceiling, (*others, wanted)))
            if not math.isinf(limit) and (needed > limit or is_unsure):
                return f"{name}: {spent:.4f} of max_cost = {limit:g} is spent", bool(others)
        return "", False


class Wallet:
    """A model's side of a ledger, which may be in another process."""

    def __init__(self, ledger: Any, model: str, holder: str = "") -> None:
        """``ledger`` is a ``Ledger``, or the handle of the actor that holds it; ``holder`` names this worker."""
        self.ledger, self.model, self.holder = ledger, model, holder

    @asynccontextmanager
    async def open(self, reply_cost: float) -> AsyncIterator[Bill]:
        """Reserve the most that a request may cost, and pay its bill at the end; raises BudgetSpent."""
        ticket, bill = uuid4().hex, Bill()
        try:
            if reason := await self._call("reserve", ticket, self.model, self.holder, reply_cost):
                raise BudgetSpent(reason)
            yield bill
        finally:
            await self._call("release", ticket, bill.cost, bill.prompt_cost, bill.cut_off)

    async def _call(self, name: str, *arguments: Any) -> Any:
        method = getattr(self.ledger, name)
        return await getattr(method, "remote", method)(*arguments)
