"""Tries a loaded engine: plays episodes, measures memory, and compares prompts with the package's own call.

The engine is closed before the package-style call loads the checkpoint again, because two of them may not fit.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from actors.engine.backend import Backend, LocalBackend, Message, Reply, Request, images_of
from actors.engine.image_loader import PictureLoader
from actors.engine.in_flight import choose_in_flight
from actors.node import nvml
from actors.playing.episode_runner import EpisodeRunner, PlanView
from actors.text.printable import first_line
from actors.trial.certify import InputReport, load_package_pictures, record_inputs
from actors.trial.front_end import FrontEnd, measure_front_end
from envs.types import ImageRef
from sweeps.package_models import resolve_source
from sweeps.spec import ModelSpec

COMPARED_PROMPTS = 6
"""Prompts compared with the package-style call: a model of 7 billion parameters answers one in about a second."""
REPLY_TOKENS = 20
"""New tokens of a compared reply."""
NO_PACKAGE_CALL = "the package shows pictures to every model"
"""Why prompts of a model that reads text only are not compared."""


@dataclass(frozen=True)
class PromptComparison:
    """Token ids and reply of one prompt, by the engine and by the package-style call."""

    pictures: int
    ids: list[int]
    package_ids: list[int]
    reply: str
    package_reply: str


@dataclass(frozen=True)
class TrialReport:
    """The measurements of a trial."""

    seconds: float
    """Time to play all episodes."""
    endings: dict[str, int]
    """Ending -> episodes."""
    reason: str
    """Error of the first episode that ended with one; empty if none did."""
    host: int
    """Bytes of host memory of this process and its children."""
    gpu: int | None
    """Bytes in use on this worker's GPUs; None if no driver reports them."""
    picture: int | None
    """Tokens of one picture of the first prompt; None if they cannot be measured."""
    compared: tuple[PromptComparison, ...] = ()
    uncompared: str = ""
    """Why prompts were not compared; empty if all were."""
    front: FrontEnd | None = None
    """None unless a vLLM worker got prompts with pictures."""
    inputs: InputReport = field(default_factory=InputReport)
    """The recorded model input of one episode per cell."""


class RequestRecorder(Backend):
    """A backend that forwards requests and records those that were answered."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        reply = await self.backend.reply(request)
        self.requests.append(request)
        return reply

    async def close(self) -> None:
        await self.backend.close()


async def run_trial(
    plan: PlanView, model: ModelSpec, backend: Backend, data: Path, ordinals: Sequence[int]
) -> TrialReport:
    """Play the episodes of these ordinals, compare some of their prompts, and close the backend."""
    recorder, cells = RequestRecorder(backend), {plan.task(ordinal)[0]: ordinal for ordinal in reversed(ordinals)}
    inputs = await record_inputs(plan, model, backend, data, sorted(cells.values()))
    report, batches = await _play_episodes(plan, model, recorder, ordinals)
    report = replace(report, inputs=inputs)
    if not isinstance(backend, LocalBackend):
        await backend.close()
        return replace(report, uncompared="no checkpoint to compare with")
    requests = select_requests(recorder.requests)
    picture = await measure_picture_tokens(backend, requests[0]) if requests else None
    ours = [(await backend.token_ids(request), (await backend.reply(request)).text) for request in requests]
    cached_share = _cached_share(batches)
    front = await measure_front_end(backend, recorder.requests, cached_share) if model.backend == "vllm" else None
    await backend.close()
    theirs, reason = (
        ([], NO_PACKAGE_CALL) if "no pictures" in model.limits else await _call_package(model, data, requests)
    )
    compared = tuple(
        PromptComparison(len(images_of(request.messages)), ids, package_ids, reply, package_reply)
        for request, (ids, reply), (package_ids, package_reply) in zip(requests, ours, theirs, strict=False)
    )
    return replace(report, picture=picture, compared=compared, uncompared=reason, front=front)


async def _play_episodes(
    plan: PlanView, model: ModelSpec, recorder: RequestRecorder, ordinals: Sequence[int]
) -> tuple[TrialReport, list[dict[str, Any]]]:
    """Play the episodes; return the report so far, and the batches of their rows."""
    began, batches = perf_counter(), list[dict[str, Any]]()
    episodes = choose_in_flight(model, recorder.backend.cache_tokens).episodes
    async for batch in EpisodeRunner(plan, {model.name: recorder}, episodes).play(ordinals):
        batches.append(batch.episodes)
    seconds = perf_counter() - began
    host, gpu = measure_memory()
    errors = [error for columns in batches for error in columns["error"] if error]
    endings = Counter(ending for columns in batches for ending in columns["ending"])
    return TrialReport(seconds, dict(sorted(endings.items())), (errors or [""])[0], host, gpu, None), batches


def _cached_share(batches: Sequence[dict[str, Any]]) -> float:
    pictures, cached = (sum(n or 0 for each in batches for n in each[name]) for name in ("pictures", "cached_pictures"))
    return cached / pictures if pictures else 0.0


def select_requests(requests: Sequence[Request]) -> list[Request]:
    """Return the prompts with fewest and most pictures, and some between, with greedy and short decoding."""
    ranked = sorted(requests, key=lambda request: len(images_of(request.messages)))
    step = max(1, (len(ranked) - 1) // max(1, COMPARED_PROMPTS - 1))
    picked = {id(request): request for request in (*ranked[::step][: COMPARED_PROMPTS - 1], *ranked[-1:])}
    return [
        request._replace(sampling=request.sampling.model_copy(update={"temperature": 0.0, "max_tokens": REPLY_TOKENS}))
        for request in picked.values()
    ]


async def measure_picture_tokens(backend: LocalBackend, request: Request) -> int | None:
    """Return how many tokens one more copy of the first picture adds to a prompt; None if it cannot be measured."""
    image = next(iter(images_of(request.messages)), None)
    for many, few in ((2, 1), (1, 0)) if image else ():
        with suppress(Exception):  # the model may need exactly one picture: the next pair may work
            longer = await backend.token_ids(_probe(request, image, many))
            return len(longer) - len(await backend.token_ids(_probe(request, image, few)))
    return None


def _probe(request: Request, image: ImageRef | None, number: int) -> Request:
    return request._replace(messages=(Message("user", "?", (image,) * number if image else ()),))


async def _call_package(
    model: ModelSpec, data: Path, requests: Sequence[Request]
) -> tuple[list[tuple[list[int], str]], str]:
    """Return token ids and reply of each prompt by the package-style call, and why the call failed (or an empty string)."""
    loader, answers = PictureLoader(data, model), list[tuple[list[int], str]]()
    try:
        from actors.engine.hf.package_call import PackageCall

        call = await asyncio.to_thread(PackageCall, resolve_source(model))
        for request in requests:
            pictures = await load_package_pictures(loader, request.messages)
            ids = await asyncio.to_thread(call.ids, request.messages, pictures)
            answers.append((ids, await asyncio.to_thread(call.reply, request.messages, pictures, REPLY_TOKENS)))
    except Exception as problem:  # an error of transformers must not fail the trial of our engine
        return answers, f"transformers: {first_line(problem)}"
    finally:
        loader.close()
    return answers, ""


def measure_memory() -> tuple[int, int | None]:
    """Return the bytes of host memory of this process and its children, and the bytes in use on its GPUs."""
    process, host = psutil.Process(), 0
    for member in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            host += member.memory_info().rss
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    try:
        devices = nvml.devices()
    except nvml.DriverUnavailable:
        return host, None
    own = [gpu for gpu in devices if any(gpu.index == name or gpu.uuid.startswith(name) for name in visible)]
    return host, sum(gpu.total - gpu.free for gpu in own) if own else None
