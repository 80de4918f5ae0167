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


def prepare_requests(open_request: Callable[[int], int], render_request: Callable[[int], int], number: int):
    """Return what each of ``number`` requests became, and the order in which they were answered."""
    order: list[int] = []

    async def prepare_one(pipeline: RequestPipeline[int, int, int], request: int) -> int:
        answer = await pipeline.prepare(request)
        order.append(request)
        return answer

    async def prepare_all() -> list[object]:
        pipeline = RequestPipeline(open_request, render_request, THREADS)
        results = await asyncio.gather(*(prepare_one(pipeline, n) for n in range(number)), return_exceptions=True)
        pipeline.close()
        pipeline.close()
        return results

    return asyncio.run(asyncio.wait_for(prepare_all(), 60)), order


def test_each_asker_gets_its_own_request_back():
    results, _ = prepare_requests(lambda n: n + 1, lambda n: 10 * n, 500)

    assert results == [10 * (n + 1) for n in range(500)]


def test_one_thread_renders_and_requesters_resume_in_its_order():
    rendered: list[int] = []
    names: set[str] = set()

    def render(request: int) -> int:
        rendered.append(request)
        names.add(threading.current_thread().name)
        return request

    def open_slowly(request: int) -> int:
        time.sleep(0.002 * (request % 3))  # later ones are opened before earlier ones
        return request

    _, order = prepare_requests(open_slowly, render, 60)

    assert order == rendered and rendered != sorted(rendered)
    assert len(names) == 1 and names != {threading.current_thread().name}


def test_requests_are_opened_side_by_side():
    barrier = threading.Barrier(4)

    results, _ = prepare_requests(lambda n: barrier.wait(30) * 0 + n, lambda n: n, 4)

    assert results == [0, 1, 2, 3]


def test_error_affects_only_its_request():
    def open_or_fail(request: int) -> int:
        return request // (request - 1)  # request 1 cannot be opened

    def render_or_fail(value: int) -> int:
        return 6 // value  # request 0 cannot be rendered

    (first, second, *remaining), _ = prepare_requests(open_or_fail, render_or_fail, 5)

    assert isinstance(first, ZeroDivisionError) and isinstance(second, ZeroDivisionError)
    assert remaining == [3, 6, 6]


def test_cancelled_request_delays_nobody():
    async def ask() -> int:
        pipeline = RequestPipeline(lambda n: n, lambda n: time.sleep(0.05) or n, THREADS)
        cancelled = asyncio.create_task(pipeline.prepare(1))
        await asyncio.sleep(0)
        cancelled.cancel()
        answer = await pipeline.prepare(2)
        pipeline.close()
        return answer

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_partial_batch_is_released_when_no_request_follows(monkeypatch, seed):
    """Any of the threads may be the last one, also with a request that cannot be opened."""
    monkeypatch.setattr(request_pipeline, "TOGETHER_S", 3600.0)
    draw = random.Random(seed)
    slow = [draw.choice((0.0, 0.0, 0.001, 0.01)) for _ in range(60)]

    def open_after_pause(request: int) -> int:
        time.sleep(slow[request])
        return 1 // (request % 7) * request

    def render_after_pause(request: int) -> int:
        time.sleep(slow[-request])
        return request

    results, _ = prepare_requests(open_after_pause, render_after_pause, 60)

    assert [isinstance(outcome, ZeroDivisionError) for outcome in results] == [n % 7 == 0 for n in range(60)]


def test_results_close_in_time_share_one_wake_up(monkeypatch):
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


def test_waiting_results_share_one_wake_up():
    """The event loop is busy while 50 requests are rendered; one wake-up delivers all of them."""

    async def ask() -> int:
        loop, wakes = asyncio.get_running_loop(), 0
        call = loop.call_soon_threadsafe

        def count_wake_ups(*arguments: object) -> object:
            nonlocal wakes
            wakes += 1
            return call(*arguments)  # type: ignore[arg-type]

        loop.call_soon_threadsafe = count_wake_ups  # type: ignore[method-assign, assignment]
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
