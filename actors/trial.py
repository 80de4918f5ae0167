"""A loaded engine is tried: some episodes, its memory, and its first prompts beside the same asked as the package asks.

The engine is closed before the package-style call loads the checkpoint a second time: two of them need not fit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from actors import nvml
from actors.backend import Backend, Message, Reply, Request
from actors.backend_registry import at_home
from actors.episode_runner import EpisodeRunner, PlanView
from actors.front_end import FrontEnd, measured
from actors.image_loader import Pictures
from actors.in_flight import chosen as chosen_in_flight
from envs.types import ImageRef
from sweeps.spec import ModelSpec

COMPARED = 6
"""Prompts set beside the package-style call: a network of 7 billion parameters answers one in about a second."""
REPLY_TOKENS = 20
"""New tokens of a compared reply."""
ENGINES = ("vllm", "transformers")
"""Backends whose checkpoint transformers may be able to load as well."""


@dataclass(frozen=True)
class Compared:
    """One prompt, as the engine and as the package-style call have it."""

    pictures: int
    ids: list[int]
    package_ids: list[int]
    reply: str
    package_reply: str


@dataclass(frozen=True)
class Tried:
    """What a trial found."""

    seconds: float
    """Of playing, all episodes together."""
    endings: dict[str, int]
    """Ending -> episodes."""
    reason: str
    """Why the first episode ended that could not be asked; empty where all could."""
    host: int
    """Bytes of host memory of this process and its children."""
    gpu: int | None
    """Bytes taken on this worker's GPUs; None where no driver tells."""
    picture: int | None
    """Tokens of one picture of the first prompt; None where the model cannot be asked without it."""
    compared: tuple[Compared, ...] = ()
    uncompared: str = ""
    """Why nothing was compared."""
    front: FrontEnd | None = None
    """Of a vLLM worker, as far as its prompts have pictures."""


class Recorder:
    """Passes requests on to a backend, and keeps those that it answered."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.kept: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        reply = await self.backend.reply(request)
        self.kept.append(request)
        return reply

    async def close(self) -> None:
        await self.backend.close()


async def tried(book: PlanView, model: ModelSpec, backend: Any, data: Path, ordinals: Sequence[int]) -> Tried:
    """Play the ordinals' episodes, compare some of their prompts, and close the backend."""
    recorder, began = Recorder(backend), perf_counter()
    rows: list[dict[str, Any]] = []
    most = chosen_in_flight(model, getattr(backend, "cache_tokens", None)).episodes
    async for block in EpisodeRunner(book, {model.name: recorder}, most).play(ordinals):
        rows.append(block.episodes)
    seconds = perf_counter() - began
    host, gpu = memory()
    errors = [error for row in rows for error in row["error"] if error]
    endings = [ending for row in rows for ending in row["ending"]]
    found = Tried(
        seconds, {name: endings.count(name) for name in sorted(set(endings))}, (errors or [""])[0], host, gpu, None
    )
    if model.backend not in ENGINES:
        await backend.close()
        return replace(found, uncompared="no checkpoint to compare with")
    asked = chosen(recorder.kept)
    picture = await picture_tokens(backend, asked[0]) if asked else None
    ours = [(await backend.token_ids(request), (await backend.reply(request)).text) for request in asked]
    front = await measured(backend, recorder.kept, _known(rows)) if model.backend == "vllm" else None
    await backend.close()
    theirs, problem = await _package(model, data, asked)
    compared = tuple(
        Compared(_pictures(request), ids, package_ids, reply, package_reply)
        for request, (ids, reply), (package_ids, package_reply) in zip(asked, ours, theirs, strict=False)
    )
    return replace(found, picture=picture, compared=compared, uncompared=problem, front=front)


def _known(rows: Sequence[dict[str, Any]]) -> float:
    """The share of the pictures of these rows that came from the engine's cache."""
    shown, known = (sum(n or 0 for row in rows for n in row[name]) for name in ("pictures", "cached_pictures"))
    return known / shown if shown else 0.0


def chosen(requests: Sequence[Request]) -> list[Request]:
    """The prompts with fewest and with most pictures, and others between, made greedy and short."""
    ranked = sorted(requests, key=_pictures)
    step = max(1, (len(ranked) - 1) // max(1, COMPARED - 1))
    picked = {id(request): request for request in (*ranked[::step][: COMPARED - 1], *ranked[-1:])}
    return [
        replace(request, sampling=request.sampling.model_copy(update={"temperature": 0.0, "max_tokens": REPLY_TOKENS}))
        for request in picked.values()
    ]


async def picture_tokens(backend: Any, request: Request) -> int | None:
    """What the first picture takes of the context, with the tokens that stand around it."""
    image = next((image for message in request.messages for image in message.images), None)
    for more, fewer in ((2, 1), (1, 0)) if image else ():
        with suppress(Exception):  # a limit of one picture, a template that wants one: the next pair may do
            return len(await backend.token_ids(_probe(request, image, more))) - len(
                await backend.token_ids(_probe(request, image, fewer))
            )
    return None


def _probe(request: Request, image: ImageRef | None, number: int) -> Request:
    shown = (image,) * number if image else ()
    return replace(request, messages=(Message("user", "?", shown),))


async def _package(model: ModelSpec, data: Path, asked: Sequence[Request]) -> tuple[list[tuple[list[int], str]], str]:
    """Ids and reply of each prompt by the package-style call; where it cannot be made, nothing and the reason."""
    pictures, found = Pictures(data), list[tuple[list[int], str]]()
    try:
        from actors.hf_package_call import PackageCall

        call = await asyncio.to_thread(PackageCall, at_home(model))
        for request in asked:
            shown = await pictures.shown(request.messages)
            ids = await asyncio.to_thread(call.ids, request.messages, shown)
            found.append((ids, await asyncio.to_thread(call.reply, request.messages, shown, REPLY_TOKENS)))
    except Exception as problem:  # whatever transformers raises, the trial of our engine stands
        return found, f"transformers: {sentence(problem)}"
    finally:
        pictures.close()
    return found, ""


def sentence(problem: BaseException) -> str:
    """The first line of an error."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:300]


def memory() -> tuple[int, int | None]:
    """Bytes that this process and its children hold of the host, and bytes taken on the GPUs that it was given."""
    here = psutil.Process()
    host = 0
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.Error):
            host += process.memory_info().rss
    given = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    try:
        known = nvml.devices()
    except nvml.Unmeasurable:
        return host, None
    mine = [one for one in known if any(one.index == name or one.uuid.startswith(name) for name in given)]
    return host, sum(one.total - one.free for one in mine) if mine else None


def _pictures(request: Request) -> int:
    return sum(len(message.images) for message in request.messages)
