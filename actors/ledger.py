"""Money that all workers of an attempt spend together: a request goes out only if what it may cost at most is still there.

One process holds the ledger (``actors.worker.SharedLedger``); a worker asks it before each request and pays after each answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from actors.rate_limit import Batched, Budget, BudgetSpent

PAID: ContextVar[list[float]] = ContextVar("paid")
"""What the answers to the request of this task have cost."""
EVERYTHING = "all services"
"""Whose budget the sweep's own is."""


class Ticket(NamedTuple):
    """What one request has set aside."""

    holder: str
    model: str
    ceiling: float
    aside: AsyncExitStack
    batch: Batched = Batched.NO


class Ledger:
    """The budgets of models and of the sweep; a model without one of its own is in the sweep's alone."""

    def __init__(self, limits: Mapping[str, float | None], total: float | None, spent: Mapping[str, float]) -> None:
        """``limits``: model -> ``max_cost``; ``total``: the sweep's; ``spent``: model -> what earlier attempts have spent."""
        self.spent = {model: spent.get(model, 0.0) for model in (*limits, *spent)}
        self.budgets = {model: Budget(limit, model) for model, limit in limits.items()}
        self.total = Budget(total, EVERYTHING)
        for model, budget in self.budgets.items():
            budget.spent = self.spent[model]
        self.total.spent = sum(self.spent.values())
        self.tickets: dict[int, Ticket] = {}
        self.issued = 0

    async def hold(self, model: str, holder: str, ceiling: float, batch: Batched = Batched.NO) -> tuple[int, str]:
        """Set the most that a request may cost aside, when it is there: its ticket; or 0 and why too little is left."""
        aside = AsyncExitStack()
        try:
            for budget in (self.budgets[model], self.total):
                await aside.enter_async_context(budget.hold(lambda: ceiling, batch))
        except BudgetSpent as spent:
            await aside.aclose()
            return 0, str(spent)
        self.issued += 1
        self.tickets[self.issued] = Ticket(holder, model, ceiling, aside, batch)
        return self.issued, ""

    async def release(self, ticket: int, cost: float) -> None:
        """A request has ended, and cost so much; a second time changes nothing."""
        if held := self.tickets.pop(ticket, None):
            self.spent[held.model] += cost
            self.budgets[held.model].pay(cost)
            self.total.pay(cost)
            await held.aside.aclose()

    async def at_least(self, model: str, cost: float) -> None:
        """The model's service says that so much was spent on it in all."""
        more = max(0.0, cost - self.spent[model])
        self.spent[model] += more
        self.budgets[model].spent += more
        self.total.spent += more

    async def forget(self, holder: str) -> None:
        """A worker is gone: what its requests may have cost counts as spent, for nobody will say what they did cost.

        A batch of it goes on, and the next worker finds it and what it cost.
        """
        for ticket in [ticket for ticket, held in self.tickets.items() if held.holder == holder]:
            held = self.tickets[ticket]
            await self.release(ticket, held.ceiling if held.batch is Batched.NO else 0.0)

    async def spending(self) -> dict[str, float]:
        """Model -> what was spent, earlier attempts included, and what requests in flight may add to it; batches tell later."""
        single = [one for one in self.tickets.values() if one.batch is Batched.NO]
        held = {model: sum(one.ceiling for one in single if one.model == model) for model in self.spent}
        return {model: spent + held[model] for model, spent in self.spent.items()}


class RemoteBudget:
    """A worker's side of a shared ledger; in place of ``rate_limit.Budget``."""

    def __init__(self, ledger: Any, model: str, holder: str) -> None:
        """``ledger`` is the handle of the process that holds it; ``holder`` names this worker."""
        self.ledger, self.model, self.holder = ledger, model, holder

    @asynccontextmanager
    async def hold(self, ceiling: Callable[[], float], batch: Batched = Batched.NO) -> AsyncIterator[None]:
        """Set the most that a request may cost aside while it runs; raises BudgetSpent when too little is left."""
        ticket, reason = await self._asked(ceiling(), batch)
        if not ticket:
            raise BudgetSpent(reason)
        paid: list[float] = []
        token = PAID.set(paid)
        try:
            yield
        finally:
            PAID.reset(token)
            await self.ledger.release.remote(ticket, sum(paid))

    def pay(self, cost: float) -> None:
        """Charge what an answer to the request that is held for has cost."""
        PAID.get().append(cost)

    async def at_least(self, cost: float) -> None:
        """The service says that so much was spent in all."""
        await self.ledger.at_least.remote(self.model, cost)

    async def _asked(self, ceiling: float, batch: Batched) -> tuple[int, str]:
        """A ticket, or why there is none; one that comes for a caller who has gone is given back."""

        async def ask() -> tuple[int, str]:
            ticket, reason = await self.ledger.hold.remote(self.model, self.holder, ceiling, batch)
            return int(ticket), str(reason)

        asking = asyncio.ensure_future(ask())
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(self._give_back)
            raise

    def _give_back(self, asking: asyncio.Future[tuple[int, str]]) -> None:
        if not asking.cancelled() and asking.exception() is None:
            self.ledger.release.remote(asking.result()[0], 0.0)
