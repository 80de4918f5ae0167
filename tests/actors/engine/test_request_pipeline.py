"""Requests are opened side by side, rendered one at a time, and handed over in the order in which they were rendered."""

import asyncio
import threading
import time
from collections.abc import Callable

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


def test_one_thread_renders_at_a_time_and_requesters_resume_in_its_order():
    rendered: list[int] = []
    rendering = threading.Lock()

    def render(request: int) -> int:
        assert rendering.acquire(blocking=False), "two threads render"
        rendered.append(request)
        time.sleep(0.001)
        rendering.release()
        return request

    def open_slowly(request: int) -> int:
        time.sleep(0.002 * (request % 3))  # later ones are opened before earlier ones
        return request

    answers, order = prepare_requests(open_slowly, render, 60)

    assert answers == list(range(60))
    assert order == rendered and rendered != sorted(rendered)


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
