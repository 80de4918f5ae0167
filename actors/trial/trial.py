"""Tries a loaded engine: plays episodes, measures memory and the tokens of a picture, and records the inputs to certify."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

import psutil

from actors.engine.backend import Backend, LocalBackend, Message, Reply, Request, images_of
from actors.engine.in_flight import choose_in_flight
from actors.node import nvml
from actors.playing.episode_runner import EpisodeRunner, PlanView
from actors.trial.certify import InputReport, record_inputs
from sweeps.spec import ModelSpec


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
    inputs: InputReport = field(default_factory=InputReport)
    """The recorded model input of one episode per cell."""


class RequestRecorder(Backend):
    """A backend that forwards requests and keeps the first that was answered."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.first: Request | None = None

    async def reply(self, request: Request) -> Reply:
        reply = await self.backend.reply(request)
        self.first = self.first or request
        return reply


async def run_trial(
    plan: PlanView, model: ModelSpec, backend: Backend, data: Path, ordinals: Sequence[int]
) -> TrialReport:
    """Record the inputs of one episode per cell, play all episodes, and close the backend."""
    recorder, cells = RequestRecorder(backend), {plan.task(ordinal)[0]: ordinal for ordinal in reversed(ordinals)}
    inputs = await record_inputs(plan, model, backend, data, sorted(cells.values()))
    report = await _play_episodes(plan, model, recorder, ordinals)
    local = recorder.first is not None and isinstance(backend, LocalBackend)
    picture = await measure_picture_tokens(backend, recorder.first) if local else None  # type: ignore[arg-type]
    await backend.close()
    return replace(report, inputs=inputs, picture=picture)


async def _play_episodes(
    plan: PlanView, model: ModelSpec, recorder: RequestRecorder, ordinals: Sequence[int]
) -> TrialReport:
    began, errors, endings = perf_counter(), list[str](), Counter[str]()
    episodes = choose_in_flight(model, recorder.backend.cache_tokens).episodes
    async for batch in EpisodeRunner(plan, {model.name: recorder}, episodes).play(ordinals):
        errors += filter(None, batch.episodes["error"])
        endings.update(batch.episodes["ending"])
    host, gpu = measure_memory()
    return TrialReport(perf_counter() - began, dict(sorted(endings.items())), (errors or [""])[0], host, gpu, None)


async def measure_picture_tokens(backend: LocalBackend, request: Request) -> int | None:
    """Return how many tokens one more copy of the first picture adds to a prompt; None if it cannot be measured."""
    image = next(iter(images_of(request.messages)), None)
    for many, few in ((2, 1), (1, 0)) if image else ():
        with suppress(Exception):  # the model may need exactly one picture: the next pair may work
            counts = [request._replace(messages=(Message("user", "?", (image,) * n),)) for n in (many, few) if image]
            longer, shorter = [len(await backend.token_ids(count)) for count in counts]
            return longer - shorter
    return None


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
