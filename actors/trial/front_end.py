"""Measures the front end of a loaded vLLM worker apart from its engine, to find which of the two is the bottleneck.

The front end renders every prompt in one process, whatever the GPU; a faster engine waits for it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any

from actors.engine.backend import Request
from envs.types import ImageRef

MAX_REQUESTS = 64
"""Maximum number of measured requests, each with a different picture."""


@dataclass(frozen=True)
class FrontEnd:
    """Rates of a worker's front end and of its engine, measured separately."""

    requests: int
    """Number of measured requests."""
    new_ms: float
    """Processor milliseconds of the front end per request with new pictures."""
    cached_ms: float
    """Processor milliseconds per request whose pictures the engine has cached."""
    engine: float
    """Requests/s that the engine answers if their prompts are ready."""
    cached: float = 0.0
    """Share of cached pictures among those of the trial's episodes."""

    @property
    def ceiling(self) -> float:
        """Requests/s that the front end sustains with the trial's mix of new and cached pictures."""
        return 1e3 / (self.cached * self.cached_ms + (1 - self.cached) * self.new_ms)


async def measure_front_end(backend: Any, answered: Sequence[Request], cached_share: float) -> FrontEnd | None:
    """Repeat some requests on an idle ``VLLMBackend`` with empty caches; return None if they have no pictures."""
    requests = _select_distinct(answered)
    if not requests:
        return None
    await backend.clear_caches()
    times = [process_time()]
    prompts = [await backend.prompts.prepare(request) for request in requests]
    times.append(process_time())
    start = perf_counter()
    pairs = zip(requests, prompts, strict=True)
    await asyncio.gather(
        *(backend.reply_to_prompt(request, partial(asyncio.sleep, 0, prompt)) for request, prompt in pairs)
    )
    seconds = perf_counter() - start
    times.append(process_time())
    for request in requests:
        await backend.prompts.prepare(request)
    times.append(process_time())
    new, submit, cached = (1e3 * (end - begin) / len(requests) for begin, end in pairwise(times))
    return FrontEnd(len(requests), new + submit, submit + cached, len(requests) / seconds, cached_share)


def _select_distinct(requests: Sequence[Request]) -> list[Request]:
    """Return the first request that ends with each picture, at most ``MAX_REQUESTS``."""
    by_picture: dict[ImageRef, Request] = {}
    for request in requests:
        for image in request.messages[-1].images[-1:]:
            by_picture.setdefault(image, request)
    return list(by_picture.values())[:MAX_REQUESTS]
