"""Requests are opened side by side, rendered one at a time, and handed over in the order in which they were rendered."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable

import pytest

from actors.engine import request_pipeline
from actors.engine.request_pipeline import RequestPipeline

THREADS = 4


def prepared(opened: Callable[[int], int], rendered: Callable[[int], int], number: int):
    """What every one of ``number`` requests became, and the order in which their askers went on."""
    order: list[int] = []

    async def one(pipeline: RequestPipeline[int, int, int], asked: int) -> int:
        answer = await pipeline.prepare(asked)
        order.append(asked)
        return answer

    async def all_of_them() -> list[object]:
        pipeline = RequestPipeline(opened, rendered, THREADS)
        found = await asyncio.gather(*(one(pipeline, n) for n in range(number)), return_exceptions=True)
        pipeline.close()
        pipeline.close()
        return found

    return asyncio.run(asyncio.wait_for(all_of_them(), 60)), order


def test_each_asker_gets_its_own_request_back():
    found, _ = prepared(lambda n: n + 1, lambda n: 10 * n, 500)

    assert found == [10 * (n + 1) for n in range(500)]


def test_one_thread_renders_and_its_order_is_the_order_of_the_askers():
    rendered: list[int] = []
    names: set[str] = set()

    def render(asked: int) -> int:
        rendered.append(asked)
        names.add(threading.current_thread().name)
        return asked

    def opened(asked: int) -> int:
        time.sleep(0.002 * (asked % 3))  # later ones are opened before earlier ones
        return asked

    _, order = prepared(opened, render, 60)

    assert order == rendered and rendered != sorted(rendered)
    assert len(names) == 1 and names != {threading.current_thread().name}


def test_requests_are_opened_side_by_side():
    together = threading.Barrier(4)

    found, _ = prepared(lambda n: together.wait(30) * 0 + n, lambda n: n, 4)

    assert found == [0, 1, 2, 3]


def test_a_problem_is_that_of_its_own_request():
    def opened(asked: int) -> int:
        return asked // (asked - 1)  # request 1 cannot be opened

    def rendered(value: int) -> int:
        return 6 // value  # request 0 cannot be rendered

    (first, second, *others), _ = prepared(opened, rendered, 5)

    assert isinstance(first, ZeroDivisionError) and isinstance(second, ZeroDivisionError)
    assert others == [3, 6, 6]


def test_an_asker_who_went_away_holds_nobody_up():
    async def ask() -> int:
        pipeline = RequestPipeline(lambda n: n, lambda n: time.sleep(0.05) or n, THREADS)
        gone = asyncio.create_task(pipeline.prepare(1))
        await asyncio.sleep(0)
        gone.cancel()
        answer = await pipeline.prepare(2)
        pipeline.close()
        return answer

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_who_waits_for_company_is_told_when_nobody_else_comes(monkeypatch, seed):
    """Any of the threads may be the last one, also with a request that cannot be opened."""
    monkeypatch.setattr(request_pipeline, "TOGETHER_S", 3600.0)
    draw = random.Random(seed)
    slow = [draw.choice((0.0, 0.0, 0.001, 0.01)) for _ in range(60)]

    def opened(asked: int) -> int:
        time.sleep(slow[asked])
        return 1 // (asked % 7) * asked

    def rendered(asked: int) -> int:
        time.sleep(slow[-asked])
        return asked

    found, _ = prepared(opened, rendered, 60)

    assert [isinstance(one, ZeroDivisionError) for one in found] == [n % 7 == 0 for n in range(60)]


def test_results_of_a_moment_come_with_one_wake_up(monkeypatch):
    monkeypatch.setattr(request_pipeline, "TOGETHER_S", 3600.0)
    wakes: list[float] = []

    async def ask() -> None:
        pipeline = RequestPipeline(lambda n: n, lambda n: time.sleep(0.002) or n, THREADS)
        look = pipeline._drain
        pipeline._drain = lambda: wakes.append(time.monotonic()) or look()  # type: ignore[method-assign]
        await asyncio.gather(*(pipeline.prepare(n) for n in range(100)))
        pipeline.close()

    asyncio.run(asyncio.wait_for(ask(), 60))
    assert len(wakes) < 20, "the first, the last, and where the only one who is opened is rendered at that moment"


def test_many_results_that_wait_come_with_one_wake_up():
    """The event loop is busy while 50 requests are rendered: it is woken once for all of them."""

    async def ask() -> int:
        loop, wakes = asyncio.get_running_loop(), 0
        call = loop.call_soon_threadsafe

        def counted(*arguments: object) -> object:
            nonlocal wakes
            wakes += 1
            return call(*arguments)  # type: ignore[arg-type]

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
        rendered = threading.Semaphore(0)
        pipeline = RequestPipeline(lambda n: n, lambda n: rendered.release() or n, THREADS)
        tasks = [asyncio.create_task(pipeline.prepare(n)) for n in range(50)]
        await asyncio.sleep(0)
        for _ in tasks:
            assert rendered.acquire(timeout=30)  # the loop does nothing else meanwhile
        await asyncio.gather(*tasks)
        pipeline.close()
        return wakes

    assert asyncio.run(asyncio.wait_for(ask(), 60)) <= 2
