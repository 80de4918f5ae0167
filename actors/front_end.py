"""Measures the front end of a loaded vLLM worker apart from its engine: what bounds the worker, and how many fit a GPU.

A front end renders every prompt in one process, whatever the GPU: a model that answers faster than that waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from actors.backend import Reply, Request

MOST = 64
"""Requests that are measured, each with a picture that no other one shows."""


@dataclass(frozen=True)
class FrontEnd:
    """What one worker's front end and its engine do, each as if it had the other's work for nothing."""

    requests: int
    """So many were measured."""
    new_ms: float
    """Processor milliseconds of the front end for a request whose pictures are new."""
    known_ms: float
    """The same where the engine has them."""
    engine: float
    """Requests/s that the engine answered whose prompts were ready."""
    known: float = 0.0
    """Share of pictures that the engine had when the trial's episodes were played."""

    @property
    def ceiling(self) -> float:
        """Requests/s that the front end sustains, new and known pictures mixed as in the trial."""
        return 1e3 / (self.known * self.known_ms + (1 - self.known) * self.new_ms)


async def measured(backend: Any, asked: Sequence[Request], known: float) -> FrontEnd | None:
    """Ask some of these requests again of an idle ``VLLMBackend`` whose caches are emptied; None where no picture is shown."""
    requests = _different(asked)
    if not requests:
        return None
    await backend.forget()
    began = process_time()
    prompts = [await backend.prompts.prepared(request) for request in requests]
    rendered = process_time()
    start = perf_counter()
    await asyncio.gather(*(_answered(backend, *pair) for pair in zip(requests, prompts, strict=True)))
    seconds, handed = perf_counter() - start, process_time()
    for request in requests:
        await backend.prompts.prepared(request)
    again = process_time() - handed
    each = 1e3 / len(requests)
    return FrontEnd(
        len(requests), each * (handed - began), each * (handed - rendered + again), len(requests) / seconds, known
    )


def _different(asked: Sequence[Request]) -> list[Request]:
    """The first request that ends with each picture, ``MOST`` at most."""
    found: dict[Any, Request] = {}
    for request in asked:
        shown = request.messages[-1].images
        if shown and len(found) < MOST:
            found.setdefault(shown[-1], request)
    return list(found.values())


async def _answered(backend: Any, request: Request, prompt: Any) -> Reply:
    async def ready() -> Any:
        return prompt

    reply: Reply = await backend.replied(request, ready)
    return reply
