"""Many workers share one budget: spending never exceeds the limit, whatever worker reserves, dies or is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from actors.engine.backend import BudgetSpent
from actors.engine.openai.rate_limit import Price, ReservationKind
from actors.engine.openai.shared_budget import Ledger, RemoteBudget


class Handle:
    """The ledger as workers see it: each call is a task of the event loop, as one through Ray would be."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __getattr__(self, name: str):
        method = getattr(self.ledger, name)

        class Remote:
            @staticmethod
            def remote(*values):
                return asyncio.ensure_future(method(*values))

        return Remote


def workers(ledger: Ledger, model: str, number: int) -> list[RemoteBudget]:
    return [RemoteBudget(Handle(ledger), model, f"worker-{index}") for index in range(number)]


async def ask(budget: RemoteBudget, ceiling: float, cost: float) -> str:
    """Pay for one request; return why there was no budget for it, or an empty text."""
    try:
        async with budget.reserve(Price(ceiling)):
            await asyncio.sleep(0.001)
            budget.pay(cost, Price(ceiling))
    except BudgetSpent as spent:
        return str(spent)
    return ""


def test_all_workers_share_a_models_bound() -> None:
    async def run() -> None:
        ledger = Ledger({"m": 1.0}, None, {})
        outcomes = await asyncio.gather(
            *(ask(budget, 0.125, 0.0625) for budget in workers(ledger, "m", 3) for _ in range(20))
        )
        assert outcomes.count("") == 15, "after 15 answers 0.9375 is spent, and a request may cost 0.125"
        assert await ledger.spending() == {"m": 0.9375}
        assert {text for text in outcomes if text} == {"m: 0.9375 of max_cost = 1 is spent"}

    asyncio.run(run())


def test_models_share_the_sweeps_bound_and_earlier_attempts_count() -> None:
    async def run() -> None:
        ledger = Ledger({"a": None, "b": 0.2}, 1.0, {"a": 0.3, "gone": 0.1})
        budgets = [*workers(ledger, "a", 2), *workers(ledger, "b", 2)]
        outcomes = await asyncio.gather(*(ask(budget, 0.05, 0.05) for budget in budgets for _ in range(20)))
        spent = await ledger.spending()
        assert outcomes.count("") == 12 and sum(spent.values()) == pytest.approx(1.0)
        assert spent["b"] <= 0.2 + 1e-9 and spent["gone"] == 0.1
        assert any(text.startswith("all services: ") for text in outcomes)

    asyncio.run(run())


def test_dead_workers_reservation_counts_as_spent_and_blocks_nobody() -> None:
    async def run() -> None:
        ledger = Ledger({"m": 1.0}, None, {"m": 0.0})
        dead, survivor = workers(ledger, "m", 2)
        reservation = dead.reserve(Price(0.7))
        await reservation.__aenter__()
        waiting = asyncio.create_task(ask(survivor, 0.4, 0.4))
        await asyncio.sleep(0.01)
        assert not waiting.done(), "0.7 may be spent by the other"
        assert await ledger.spending() == {"m": 0.7}, "a killed attempt may have paid it"
        await ledger.forget("worker-0")
        assert "0.7000 of max_cost = 1 is spent" in await waiting and await ledger.spending() == {"m": 0.7}
        await ledger.release(1, 0.5)
        assert await ledger.spending() == {"m": 0.7}, "it is settled already"
        assert await ask(survivor, 0.3, 0.2) == ""

    asyncio.run(run())


def test_cancelled_waiter_holds_no_reservation() -> None:
    async def run() -> None:
        ledger = Ledger({"m": 1.0}, None, {})
        active, waiter = workers(ledger, "m", 2)
        first = active.reserve(Price(0.9))
        await first.__aenter__()
        waiting = asyncio.create_task(ask(waiter, 0.9, 0.9))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await first.__aexit__(None, None, None)
        assert await ask(active, 0.9, 0.1) == "" and not ledger.tickets
        assert await ledger.spending() == {"m": pytest.approx(0.1)}

    asyncio.run(run())


def test_dead_workers_batch_is_paid_by_the_worker_that_finds_it() -> None:
    async def run() -> None:
        ledger = Ledger({"m": 1.0}, 1.0, {"m": 0.25})
        dead, successor = workers(ledger, "m", 2)
        reserved = asyncio.Event()

        async def hold_reservation() -> None:
            async with dead.reserve(Price(0.5), ReservationKind.NEW):
                reserved.set()
                await asyncio.sleep(3600)

        task = asyncio.ensure_future(hold_reservation())
        await reserved.wait()
        assert await ledger.spending() == {"m": 0.25}, "the service reports the cost of a batch later"
        await ledger.forget("worker-0")
        assert await ledger.spending() == {"m": 0.25}

        await successor.raise_spent_to(0.375)
        await successor.raise_spent_to(0.125)
        async with successor.reserve(Price(5.0), ReservationKind.SENT):
            successor.pay(0.5)
        assert await ledger.spending() == {"m": 0.875}
        assert await ask(successor, 0.25, 0.0) == "m: 0.8750 of max_cost = 1 is spent"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await ledger.spending() == {"m": 0.875}

    asyncio.run(run())


def test_a_request_cut_off_in_flight_is_charged_its_maximum() -> None:
    """Found by test_overshoot on a busy machine: the end of a lease cancelled a request that its service had billed."""

    async def run() -> None:
        ledger = Ledger({"m": 1.0}, None, {})
        (budget,) = workers(ledger, "m", 1)
        with pytest.raises(asyncio.CancelledError):
            async with budget.reserve(Price(0.25)):
                budget.pay_cut_off(Price(0.25))
                raise asyncio.CancelledError
        assert await ledger.spending() == {"m": 0.25}
        async with budget.reserve(Price(0.25)):  # past its deadline twice, then answered
            budget.pay_cut_off(Price(0.25))
            budget.pay_cut_off(Price(0.25))
            budget.pay(0.125)
        assert await ledger.spending() == {"m": 0.875}

    asyncio.run(run())


def test_batches_know_their_maximum_cost_before_any_answer() -> None:
    async def run() -> None:
        ledger, all_reserved = Ledger({"m": 1.0}, None, {}), asyncio.Event()
        reserved: list[RemoteBudget] = []

        async def send(budget: RemoteBudget) -> None:
            async with budget.reserve(Price(0.25), ReservationKind.NEW):
                reserved.append(budget)
                if len(reserved) == 3:
                    all_reserved.set()
                await all_reserved.wait()

        await asyncio.wait_for(asyncio.gather(*map(send, workers(ledger, "m", 3))), 30)

    asyncio.run(run())
