"""Measures the front end of a loaded vLLM worker apart from its engine: which of the two bounds the worker.

A front end renders every prompt in one process, whatever the GPU: a model that answers faster than that waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from actors.engine.backend import Reply, Request
from envs.types import ImageRef

MAX_REQUESTS = 64
"""Requests that are measured, each with a picture of its own."""


@dataclass(frozen=True)
class FrontEnd:
    """Rates of a worker's front end and of its engine, each measured without the other's work."""

    requests: int
    """Number of measured requests."""
    new_ms: float
    """Processor milliseconds of the front end per request with new pictures."""
    known_ms: float
    """Processor milliseconds per request whose pictures the engine has cached."""
    engine: float
    """Requests/s that the engine answers once their prompts are ready."""
    known: float = 0.0
    """Share of cached pictures among those of the trial's episodes."""

    @property
    def ceiling(self) -> float:
        """Requests/s that the front end sustains with the trial's mix of new and cached pictures."""
        return 1e3 / (self.known * self.known_ms + (1 - self.known) * self.new_ms)


async def measure_front_end(backend: Any, answered: Sequence[Request], cached_share: float) -> FrontEnd | None:
    """Repeat some requests on an idle ``VLLMBackend`` with empty caches; return None if they have no pictures."""
    requests = _select_distinct(answered)
    if not requests:
        return None
    await backend.clear_caches()
    began = process_time()
    prompts = [await backend.prompts.prepare(request) for request in requests]
    rendered = process_time()
    start = perf_counter()
    await asyncio.gather(*(_reply(backend, *pair) for pair in zip(requests, prompts, strict=True)))
    seconds, handed_over = perf_counter() - start, process_time()
    for request in requests:
        await backend.prompts.prepare(request)
    rendering_cached = process_time() - handed_over
    new_ms, known_ms = handed_over - began, handed_over - rendered + rendering_cached
    scale = 1e3 / len(requests)
    return FrontEnd(len(requests), scale * new_ms, scale * known_ms, len(requests) / seconds, cached_share)


def _select_distinct(requests: Sequence[Request]) -> list[Request]:
    """Return the first request that ends with each picture, at most ``MAX_REQUESTS``."""
    by_picture: dict[ImageRef, Request] = {}
    for request in requests:
        images = request.messages[-1].images
        if images and len(by_picture) < MAX_REQUESTS:
            by_picture.setdefault(images[-1], request)
    return list(by_picture.values())


async def _reply(backend: Any, request: Request, prompt: Any) -> Reply:
    async def ready() -> Any:
        return prompt

    reply: Reply = await backend.reply_to_prompt(request, ready)
    return reply
