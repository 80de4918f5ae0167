"""The budget that all workers of an attempt share: a request is sent only if the most that it may cost is left.

One process holds the ledger (``actors.worker.SharedLedger``); a worker reserves before each request and pays after its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from actors.engine.backend import BudgetSpent
from actors.engine.openai.rate_limit import Budget, ReservationKind

PAID: ContextVar[list[float]] = ContextVar("paid")
"""Costs of the answers to this task's request."""
EVERYTHING = "all services"
"""Name of the sweep's own budget in messages."""


class Reservation(NamedTuple):
    """The money reserved for one request."""

    holder: str
    model: str
    ceiling: float
    contexts: AsyncExitStack
    kind: ReservationKind = ReservationKind.SINGLE


class Ledger:
    """The budgets of the models and of the sweep."""

    def __init__(self, limits: Mapping[str, float | None], total: float | None, spent: Mapping[str, float]) -> None:
        """``limits``: model -> ``max_cost``; ``total``: the sweep's limit; ``spent``: model -> cost of earlier attempts."""
        self.spent = {model: spent.get(model, 0.0) for model in (*limits, *spent)}
        self.budgets = {model: Budget(limit, model) for model, limit in limits.items()}
        self.total = Budget(total, EVERYTHING)
        for model, budget in self.budgets.items():
            budget.spent = self.spent[model]
        self.total.spent = sum(self.spent.values())
        self.tickets: dict[int, Reservation] = {}
        self.issued = 0

    async def reserve(
        self, model: str, holder: str, ceiling: float, kind: ReservationKind = ReservationKind.SINGLE
    ) -> tuple[int, str]:
        """Reserve the most that a request may cost; return a ticket, or 0 and the reason if too little is left."""
        contexts = AsyncExitStack()
        try:
            for budget in (self.budgets[model], self.total):
                await contexts.enter_async_context(budget.reserve(lambda: ceiling, kind))
        except BudgetSpent as spent:
            await contexts.aclose()
            return 0, str(spent)
        self.issued += 1
        self.tickets[self.issued] = Reservation(holder, model, ceiling, contexts, kind)
        return self.issued, ""

    async def release(self, ticket: int, cost: float) -> None:
        """End a reservation and charge the request's cost; a second call changes nothing."""
        if reservation := self.tickets.pop(ticket, None):
            self.spent[reservation.model] += cost
            self.budgets[reservation.model].pay(cost)
            self.total.pay(cost)
            await reservation.contexts.aclose()

    async def raise_spent_to(self, model: str, cost: float) -> None:
        """Record that the model's service reports at least this cost in total."""
        increase = max(0.0, cost - self.spent[model])
        self.spent[model] += increase
        self.budgets[model].spent += increase
        self.total.spent += increase

    async def forget(self, holder: str) -> None:
        """Charge the ceilings of a dead worker's requests; the next worker reports the cost of its batches."""
        for ticket, reservation in list(self.tickets.items()):
            if reservation.holder == holder:
                cost = reservation.ceiling if reservation.kind is ReservationKind.SINGLE else 0.0
                await self.release(ticket, cost)

    async def spending(self) -> dict[str, float]:
        """Return model -> money spent, with earlier attempts and the ceilings of single requests in flight."""
        spending = dict(self.spent)
        for reservation in self.tickets.values():
            if reservation.kind is ReservationKind.SINGLE:
                spending[reservation.model] += reservation.ceiling
        return spending


class RemoteBudget:
    """A worker's side of the shared ledger; a substitute for ``rate_limit.Budget``."""

    def __init__(self, ledger: Any, model: str, holder: str) -> None:
        """``ledger`` is the handle of the process that holds it; ``holder`` names this worker."""
        self.ledger, self.model, self.holder = ledger, model, holder

    @asynccontextmanager
    async def reserve(
        self, ceiling: Callable[[], float], kind: ReservationKind = ReservationKind.SINGLE
    ) -> AsyncIterator[None]:
        """Reserve the most that a request may cost while it runs; raises BudgetSpent if too little is left."""
        ticket, reason = await self._reserve(ceiling(), kind)
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
        """Charge the cost of an answer to this task's request."""
        PAID.get().append(cost)

    async def raise_spent_to(self, cost: float) -> None:
        """Record that the service reports at least this cost in total."""
        await self.ledger.raise_spent_to.remote(self.model, cost)

    async def _reserve(self, ceiling: float, kind: ReservationKind) -> tuple[int, str]:
        """Return a ticket, or 0 and the reason; the ticket of a cancelled caller is released."""

        async def ask() -> tuple[int, str]:
            ticket, reason = await self.ledger.reserve.remote(self.model, self.holder, ceiling, kind)
            return int(ticket), str(reason)

        task = asyncio.ensure_future(ask())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._release_ticket)
            raise

    def _release_ticket(self, task: asyncio.Future[tuple[int, str]]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.ledger.release.remote(task.result()[0], 0.0)
