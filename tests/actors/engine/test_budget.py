"""A run's money: limits of models and of the sweep hold over workers, dead ones included."""

import asyncio
from random import Random

import pytest

from actors.engine.backend import BudgetSpent
from actors.engine.budget import Ledger, Wallet


async def pay(wallet: Wallet, cost: float, seconds: float = 0.0, reply: float = 0.1) -> None:
    async with wallet.open(reply) as bill:
        await asyncio.sleep(seconds)
        bill.cost, bill.prompt_cost = cost, max(0.0, cost - reply)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_are_passed_by_less_than_one_request(seed: int) -> None:
    """Two models of four workers share the sweep's bound; nobody knows what a prompt costs before an answer."""
    chance, paid = Random(seed), list[float]()

    async def ask(wallet: Wallet) -> None:
        cost = chance.uniform(0.1, 0.5)
        await pay(wallet, cost, chance.uniform(0, 0.01))
        paid.append(cost)

    async def play() -> dict[str, float]:
        ledger = Ledger({"a": None, "b": 4.0}, 10.0, {"a": 1.0})
        wallets = [Wallet(ledger, "ab"[number % 2], f"worker-{number}") for number in range(4)]
        results = await asyncio.gather(*(ask(wallets[n % 4]) for n in range(200)), return_exceptions=True)
        assert {type(result) for result in results} == {type(None), BudgetSpent}
        return await ledger.spending()

    spent = asyncio.run(play())
    assert sum(spent.values()) == pytest.approx(1.0 + sum(paid))
    assert spent["b"] <= 4.5 and 9.0 < sum(spent.values()) <= 10.0 + 0.5


def test_a_dead_workers_requests_count_as_spent_and_block_nobody() -> None:
    async def play() -> None:
        ledger = Ledger({"a": 1.0}, None, {})
        await pay(Wallet(ledger, "a", "one"), 0.2)
        assert await ledger.reserve("x", "a", "dead", 0.6) == ""
        assert (await ledger.spending())["a"] == pytest.approx(0.2 + 0.6 + 0.1)
        waiting = asyncio.create_task(pay(Wallet(ledger, "a", "two"), 0.2))
        await asyncio.sleep(0.01)
        assert not waiting.done(), "the dead worker's request may cost all that is left"
        await ledger.forget("dead")
        with pytest.raises(BudgetSpent, match=r"a: 0.9000 of max_cost = 1 is spent"):
            await asyncio.wait_for(waiting, 5)

    asyncio.run(play())


def test_a_cancelled_waiter_holds_nothing_and_a_spent_model_waits_for_no_other() -> None:
    async def play() -> None:
        ledger = Ledger({"a": 1.0, "b": 1.0}, None, {"b": 1.0})
        first = asyncio.create_task(pay(Wallet(ledger, "a", "one"), 0.1, 0.2))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(pay(Wallet(ledger, "a", "two"), 0.1))
        with pytest.raises(BudgetSpent, match="b: 1"):
            await asyncio.wait_for(pay(Wallet(ledger, "b"), 0.1), 0.1)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert not ledger.reserved and not ledger.waiting
        assert await ledger.spending() == {"a": pytest.approx(0.1), "b": 1.0}

    asyncio.run(play())


def test_no_request_of_a_dead_worker_is_sent_and_others_go_on() -> None:
    """Neither one that waits nor one whose call arrives late: nobody would release it."""

    async def play() -> None:
        ledger = Ledger({"a": 10.0}, None, {})
        assert await ledger.reserve("sent", "a", "dead", 0.1) == ""
        waiting = asyncio.create_task(ledger.reserve("waiting", "a", "dead", 0.1))
        await asyncio.sleep(0)
        await ledger.forget("dead")
        assert await asyncio.wait_for(waiting, 5) and await ledger.reserve("late", "a", "dead", 0.1)
        await asyncio.wait_for(pay(Wallet(ledger, "a", "alive"), 0.2), 5)

    asyncio.run(play())


def test_a_model_that_judges_itself_and_an_attempt_before_the_first_answer_pay_in_full() -> None:
    """An attempt that was cut off counts with the prompt of the answer that came after it."""

    async def play() -> dict[str, float]:
        ledger = Ledger({"judge": 10.0, "retried": 10.0}, None, {})
        await asyncio.gather(*(pay(Wallet(ledger, "judge", "worker"), 0.5) for _ in range(2)))
        async with Wallet(ledger, "retried").open(0.1) as bill:
            bill.cut_off, bill.cost, bill.prompt_cost = 1, 0.6, 0.5
        return await ledger.spending()

    assert asyncio.run(play()) == {"judge": 1.0, "retried": pytest.approx(1.2)}
