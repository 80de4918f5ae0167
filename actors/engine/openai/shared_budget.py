"""The budget that all workers of an attempt share: a request is sent only if the most that it may cost is left.

One process holds the ledger (``actors.worker.SharedLedger``); a worker reserves before each request and pays after its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.engine.backend import BudgetSpent
from actors.engine.openai.rate_limit import Budget, Price, ReservationKind

PAYMENTS: ContextVar[Payments] = ContextVar("paid")
"""The payments for the request that the current task sends."""
ALL_SERVICES = "all services"
"""Name of the sweep's own budget in messages."""


@dataclass
class Payments:
    """The payments of a task for its request."""

    answers: list[tuple[float, float]] = field(default_factory=list)
    """Cost of each answer, and the prompt's part of it."""
    cut_off: int = 0
    """Number of times that the request was sent and cut off before its answer."""


class Reservation(NamedTuple):
    """The money reserved for one request."""

    holder: str
    model: str
    price: Price
    contexts: AsyncExitStack
    kind: ReservationKind = ReservationKind.SINGLE


class Ledger:
    """The budgets of the models and of the sweep."""

    def __init__(self, limits: Mapping[str, float | None], total: float | None, spent: Mapping[str, float]) -> None:
        """``limits``: model -> ``max_cost``; ``total``: the sweep's limit; ``spent``: model -> cost of earlier attempts."""
        self.spent = {model: spent.get(model, 0.0) for model in (*limits, *spent)}
        self.budgets = {model: Budget(limit, model) for model, limit in limits.items()}
        self.total = Budget(total, ALL_SERVICES)
        for model, budget in self.budgets.items():
            budget.spent = self.spent[model]
        self.total.spent = sum(self.spent.values())
        self.tickets: dict[int, Reservation] = {}
        self.issued = 0

    async def reserve(
        self, model: str, holder: str, price: Price, kind: ReservationKind = ReservationKind.SINGLE
    ) -> tuple[int, str]:
        """Reserve the most that a request may cost; return a ticket, or 0 and the reason if too little is left."""
        contexts = AsyncExitStack()
        try:
            for budget in (self.budgets[model], self.total):
                await contexts.enter_async_context(budget.reserve(price, kind, model))
        except BudgetSpent as spent:
            await contexts.aclose()
            return 0, str(spent)
        self.issued += 1
        self.tickets[self.issued] = Reservation(holder, model, price, contexts, kind)
        return self.issued, ""

    async def release(self, ticket: int, cost: float, prompt_cost: float | None = None, cut_off: int = 0) -> None:
        """End a reservation and charge the request's cost; a second call changes nothing.

        ``prompt_cost`` is the largest cost of a prompt among its answers, None if there was no answer; ``cut_off`` is how often
        the request was cut off in flight, and each time is charged with the most that it may cost.
        """
        if reservation := self.tickets.pop(ticket, None):
            model, price = reservation.model, None if prompt_cost is None else reservation.price
            cost += cut_off * self._ceiling(reservation)
            self.spent[model] += cost
            for budget in (self.budgets[model], self.total):
                budget.pay(cost, price, prompt_cost or 0.0, model)
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
                await self.release(ticket, self._ceiling(reservation))

    async def spending(self) -> dict[str, float]:
        """Return model -> money spent, with earlier attempts and the ceilings of single requests in flight."""
        spending = dict(self.spent)
        for reservation in self.tickets.values():
            spending[reservation.model] += self._ceiling(reservation)
        return spending

    def _ceiling(self, reservation: Reservation) -> float:
        """Return the most that a request in flight may cost; 0 for a batch, whose service reports its cost later."""
        model, price = reservation.model, reservation.price
        return self.budgets[model].ceiling(model, price) if reservation.kind is ReservationKind.SINGLE else 0.0


class RemoteBudget:
    """A worker's side of the shared ledger, with the interface of ``rate_limit.Budget``."""

    def __init__(self, ledger: Any, model: str, holder: str) -> None:
        """``ledger`` is the handle of the process that holds it; ``holder`` names this worker."""
        self.ledger, self.model, self.holder = ledger, model, holder

    @asynccontextmanager
    async def reserve(self, price: Price, kind: ReservationKind = ReservationKind.SINGLE) -> AsyncIterator[None]:
        """Reserve the most that a request may cost while it runs; raises BudgetSpent if too little is left."""
        ticket, reason = await self._reserve(price, kind)
        if not ticket:
            raise BudgetSpent(reason)
        token = PAYMENTS.set(paid := Payments())
        try:
            yield
        finally:
            PAYMENTS.reset(token)
            cost = sum(cost for cost, _ in paid.answers)
            prompt_cost = max((prompt for _, prompt in paid.answers), default=None)
            await self.ledger.release.remote(ticket, cost, prompt_cost, paid.cut_off)

    def pay(self, cost: float, price: Price | None = None, prompt_cost: float = 0.0) -> None:
        """Charge the cost of an answer to this task's request; ``prompt_cost`` is the prompt's part."""
        PAYMENTS.get().answers.append((cost, prompt_cost))

    def pay_cut_off(self, price: Price) -> None:
        """Charge the most that this task's request may cost: it was cut off in flight, and the service may bill it."""
        PAYMENTS.get().cut_off += 1

    async def raise_spent_to(self, cost: float) -> None:
        """Record that the service reports at least this cost in total."""
        await self.ledger.raise_spent_to.remote(self.model, cost)

    async def _reserve(self, price: Price, kind: ReservationKind) -> tuple[int, str]:
        """Return a ticket, or 0 and the reason; the ticket of a cancelled caller is released."""

        async def ask() -> tuple[int, str]:
            ticket, reason = await self.ledger.reserve.remote(self.model, self.holder, price, kind)
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
