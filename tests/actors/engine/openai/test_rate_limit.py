"""Requests never exceed the service's rate limit or the budget."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from time import monotonic
from types import SimpleNamespace

import pytest

from actors.engine.backend import BudgetSpent
from actors.engine.openai import rate_limit
from actors.engine.openai.rate_limit import MAX_BACKOFF_S, Budget, Pace, Price, backoff, retry_after


def test_one_burst_of_refusals_cuts_the_pace_once() -> None:
    async def run() -> Pace:
        pace = Pace(64)
        pace.allowed = 32.0

        async def slow_down_once() -> None:
            async with pace.slot(Random(0)) as reductions:
                await asyncio.sleep(0.01)
                pace.slow_down(reductions, 0.0)

        await asyncio.gather(*(slow_down_once() for _ in range(32)))
        return pace

    pace = asyncio.run(run())
    assert (pace.allowed, pace.in_flight, pace.reductions) == (16.0, 0, 1)


def test_in_flight_limit_holds_when_callers_are_cancelled() -> None:
    async def run() -> tuple[int, int]:
        pace, peak = Pace(4), 0

        async def hold_slot() -> None:
            nonlocal peak
            async with pace.slot(Random(0)):
                peak = max(peak, pace.in_flight)
                await asyncio.sleep(0.002)

        tasks = [asyncio.create_task(hold_slot()) for _ in range(60)]
        await asyncio.sleep(0.005)
        for task in tasks[::3]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        return peak, pace.in_flight

    assert asyncio.run(run()) == (4, 0)


def test_after_the_first_cut_the_pace_grows_by_one_a_round() -> None:
    pace = Pace(100)
    pace.allowed = 10.0
    pace.slow_down(0, 0.0)
    for _ in range(5):
        pace.speed_up()
    assert 5.8 < pace.allowed < 6.0


def test_pause_delays_all_requests() -> None:
    async def run() -> None:
        pace = Pace(4)
        pace.slow_down(0, 0.2)
        async with pace.slot(Random(0)):
            assert monotonic() >= pace.resting_until

    asyncio.run(run())


@pytest.mark.parametrize(("rest", "spread"), [(30.0, 1.0), (0.5, 0.5)])
def test_callers_that_waited_together_go_on_within_a_second_and_no_later_than_twice_the_rest(
    monkeypatch: pytest.MonkeyPatch, rest: float, spread: float
) -> None:
    clock, slept = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    async def run() -> None:
        pace = Pace(4)
        pace.slow_down(0, rest)
        await pace._rest(Random(7))
        await pace._rest(Random(8))

    monkeypatch.setattr(rate_limit, "monotonic", lambda: clock[0])
    monkeypatch.setattr(rate_limit, "asyncio", SimpleNamespace(sleep=sleep, Condition=asyncio.Condition))
    asyncio.run(run())

    assert slept == [pytest.approx(rest + Random(7).uniform(0, spread))], "the second caller need not wait"


def test_budget_waits_for_reservations_before_refusing() -> None:
    async def run() -> list[str]:
        budget, outcomes = Budget(1.0, "m"), []

        async def ask(cost: float) -> None:
            try:
                async with budget.reserve(Price(0.6)):
                    await asyncio.sleep(0.01)
                    budget.pay(cost, Price(0.6))
                    outcomes.append("answered")
            except BudgetSpent as spent:
                outcomes.append(str(spent))

        await asyncio.gather(ask(0.1), ask(0.2), ask(0.3), ask(0.3))
        return outcomes

    assert asyncio.run(run()) == ["answered"] * 3 + ["m: 0.6000 of max_cost = 1 is spent"]


def test_the_same_seed_waits_the_same_and_never_beyond_a_minute() -> None:
    waits = [backoff(n, Random(3)) for n in range(40)]
    assert waits == [backoff(n, Random(3)) for n in range(40)]
    assert min(waits) >= 0 and max(waits) <= MAX_BACKOFF_S and waits[9] > waits[0]


@pytest.mark.parametrize(
    ("headers", "lowest", "highest"),
    [
        ({"retry-after": "2"}, 2, 2),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25, 0.25),
        ({"retry-after": "-5"}, 0, 0),
        ({"retry-after": "1e99"}, 600, 600),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3, 3),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0, 0),
    ],
)
def test_retry_after_is_read_in_every_spelling(headers: dict[str, str], lowest: float, highest: float) -> None:
    wait = retry_after(headers)
    assert wait is not None and lowest <= wait <= highest


def test_a_date_is_read_as_seconds_from_now() -> None:
    wait = retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)})
    assert wait is not None and 20 < wait <= 30


@pytest.mark.parametrize("text", ["", "nan", "inf", "when ready"])
def test_unreadable_retry_header_is_ignored(text: str) -> None:
    assert retry_after({"retry-after": text}) is None


def test_the_highest_ratio_of_cost_to_estimate_is_kept_by_model_and_kind() -> None:
    budget = Budget(10, "m")
    picture = Price(1.0, 2.0, 3.0)
    assert budget.ceiling("m", picture) == 1.0, "the reply alone, until an answer has shown more"
    budget.pay(0.5, picture, prompt_cost=1.0)
    assert budget.ratios == {("m", "pictures"): 0.0}, "a cached prompt may cost less than its text"
    budget.pay(1.0, picture, prompt_cost=5.0)
    budget.pay(1.0, picture, prompt_cost=3.5)
    budget.pay(0.25, Price(1.0, 2.0), prompt_cost=3.0, model="other")
    budget.pay(0.25, Price(1.0), prompt_cost=3.0, model="third")
    budget.pay(0.25)

    assert budget.spent == 3.25
    assert budget.ratios == {("m", "pictures"): 1.0, ("other", "text"): 1.5, ("third", "text"): 0.0}
    assert budget.ceiling("m", picture) == 1.0 + 2.0 + 3.0 and budget.ceiling("other", Price(1.0, 2.0)) == 4.0
    budget.ratios["m", "text"] = 0.5
    assert budget.ceiling("m", picture) == 1.0 + 1.0 + 3.0 and budget.ceiling("third", picture) == 1.0


def test_back_off_doubles_up_to_a_minute() -> None:
    ceilings = [max(backoff(failures, Random(seed)) for seed in range(400)) for failures in (0, 1, 3, 7, 40)]

    assert ceilings == [pytest.approx(ceiling, rel=0.02) for ceiling in (0.5, 1.0, 4.0, 60.0, 60.0)]
    assert min(backoff(3, Random(seed)) for seed in range(400)) < 0.05


def test_a_service_that_throttles_halves_the_pace_and_rests_it() -> None:
    pace = Pace(64)
    assert (pace.allowed, pace.reductions) == (4.0, 0) and Pace(2).allowed == 2.0
    for _ in range(9):
        pace.speed_up()
    assert pace.allowed == 13.0, "doubles with every round until the first refusal"
    began = monotonic()
    pace.slow_down(0, 30.0)
    pace.slow_down(0, 5.0)
    assert (pace.allowed, pace.reductions) == (6.5, 1) and began + 30.0 <= pace.resting_until < began + 31.0
    pace.speed_up()
    assert pace.allowed == 6.5 + 1 / 6.5
    pace.set_limit(3)
    assert (pace.allowed, pace.max_in_flight) == (3.0, 3)
    for reductions in (1, 2, 3):
        pace.slow_down(reductions, 0.0)
    assert pace.allowed == 1.0, "one at least"
