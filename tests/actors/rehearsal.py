"""Both engines and a package-style call on the same tiny checkpoints, task by task: inputs and replies of each, as JSON lines.

``python -m tests.actors.rehearsal CHECKPOINTS DATA TASK ...``; the tasks are ``ids:NAME`` (token ids and certificates, without
weights), ``batch:NAME`` (several requests at once), ``replies:NAME`` (both engines play) and ``thoughts:NAME`` (a cut-off
thought). A process of its own, because the packages that some processors need are on its path alone; one for many tasks,
because its imports take 20 CPU seconds. Checkpoints that are not there are built; pictures are drawn into DATA.
"""

import asyncio
import json
import multiprocessing
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image

from actors.engine.backend import Backend, Message, Request
from actors.engine.batching import Job
from actors.engine.hf.picture_cache import PictureCache, are_equal
from actors.engine.registry import open_engine, open_without_weights
from actors.trial.certify import record_inputs
from envs.types import ImageRef
from orchestrator.planning.build_plan import build_plan
from sweeps.load import build
from sweeps.sampling import Thinking
from sweeps.spec import ModelSpec
from tests.actors.architectures import write_checkpoint
from tests.actors.asking import make_request, user
from tests.actors.newer_architectures import EVERY
from tests.actors.package_network import PackageNetwork
from tests.actors.rehearsal_prompts import QUESTION, UNREADABLE, draw, entry, picture, prompts, refused_prompts

ENGINES = ("transformers", "vllm")
NEW_TOKENS = 8
"""Tokens of a reply."""


async def compare_replies(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Map ``package``, and each engine that plays here, to its ids and greedy reply for each prompt.

    Engines also map the prompts that must be refused to the errors; ``after`` is the first prompt asked again at the end. A model
    whose start token the package repeats is played ``faithful``, which refuses no length.
    """
    package, faithful = PackageNetwork(entry(name, "transformers", folder)), EVERY[name].starts_twice
    conversations, outcomes = prompts(EVERY[name].pictures, data), dict[str, Any]()
    refused = refused_prompts(EVERY[name].pictures)
    for kind in ENGINES:
        if kind == "vllm" and not (EVERY[name].vllm and EVERY[name].vllm_on_cpu):
            continue
        backend: Any = open_engine(entry(name, kind, folder, faithful), data)
        try:
            rows = {title: await _reply(backend, messages) for title, messages in conversations.items()}
            for title in refused if not faithful else (UNREADABLE,):
                rows[title] = await _refusal(backend, refused[title])
            outcomes[kind] = {**rows, "after": await _reply(backend, conversations["1 picture"])}
            if "package" not in outcomes:
                outcomes["package"] = {
                    title: await _package_reply(package, messages, backend) for title, messages in conversations.items()
                }
        finally:
            await backend.close()
    return outcomes


async def collect_ids(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Map ``package`` and each engine to the ids of each prompt; no weights are read.

    ``certificates`` are those of each engine, ``faithful`` each engine's ids of a faithful entry, if the package repeats the
    model's start token.
    """
    outcomes = await _collect_ids(name, folder, data)
    if EVERY[name].starts_twice:
        outcomes["faithful"] = await _collect_ids(name, folder, data, faithful=True)
    return outcomes


async def _collect_ids(name: str, folder: Path, data: Path, faithful: bool = False) -> dict[str, Any]:
    conversations, outcomes = prompts(EVERY[name].pictures, data), dict[str, Any](certificates={})
    package = PackageNetwork(entry(name, "transformers", folder))
    for kind in ENGINES if EVERY[name].vllm else ENGINES[:1]:
        model = entry(name, kind, folder, faithful)
        backend: Any = open_without_weights(model, data)
        try:
            outcomes[kind] = {
                title: list((await backend.model_input(_request(messages))).ids)
                for title, messages in conversations.items()
            }
            if kind == "transformers":
                outcomes["package"] = {
                    title: package.ids(messages, await _package_pictures(messages, backend))
                    for title, messages in conversations.items()
                }
            outcomes["certificates"][kind] = await certified(name, model, backend, data)
        finally:
            await backend.close()
    return outcomes


async def certified(name: str, model: ModelSpec, backend: Any, data: Path) -> dict[str, Any]:
    """Return a checkpoint's certificate, for a request of every scenario and some conditions."""
    several = EVERY[name].pictures > 1
    conditions = ["zero-shot", "hint", "reference", *(["history", "icl-1"] if several else [])]
    table = {"name": "s", "data": str(data), "models": ["oracle"], "conditions": conditions}
    plan = build_plan(build(table, "s").model_copy(update={"models": (model,)}))
    certificate = await record_inputs(plan, model, backend, data, plan.first_ordinals(model.name))
    requests = certificate.requests.values()
    most, repeated = max(request.pictures for request in requests), any(request.repeats_start for request in requests)
    return {"status": certificate.status, "pictures": most, "repeats_start": repeated}


async def ask_together(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Return the replies to four requests with a picture each, ``together`` and ``alone``, and what became of their pictures.

    ``kept``: whether the worker keeps processed pictures; ``equal``: whether kept ones give the processor's own tensors.
    """
    backend: Any = open_engine(entry(name, "transformers", folder), data)
    requests = [_request((user(f"{QUESTION} {'Look. ' * n}", picture(n)),)) for n in range(4)]
    try:
        together = [reply.text for reply in await asyncio.gather(*map(backend.reply, requests))]
        alone = [(await backend.reply(request)).text for request in requests]
        jobs = [Job(request, await backend.pictures.load(request.messages)) for request in requests]
        model, processor = backend.model, backend.model.caching_processor.image_processor
        tensors = model.on_device(model.inputs(jobs))
        kept = isinstance(processor.preprocess, PictureCache) and bool(processor.preprocess.kept)
        processor.preprocess = getattr(processor.preprocess, "preprocess", processor.preprocess)
        equal = are_equal(tensors, model.on_device(model.inputs(jobs)))
    finally:
        await backend.close()
    return {"together": together, "alone": alone, "kept": kept, "equal": equal}


async def _reply(backend: Any, messages: tuple[Message, ...]) -> dict[str, Any]:
    request = _request(messages)
    reply = await backend.reply(request)
    return {"ids": list((await backend.model_input(request)).ids), "reply": reply.text, "counted": reply.prompt_tokens}


async def _package_reply(package: PackageNetwork, messages: tuple[Message, ...], backend: Any) -> dict[str, Any]:
    pictures = await _package_pictures(messages, backend)
    return {"ids": package.ids(messages, pictures), "reply": package.reply(messages, pictures, NEW_TOKENS)}


async def _package_pictures(messages: tuple[Message, ...], backend: Any) -> dict[ImageRef, Image.Image]:
    """Return pictures as the package opens them, with metadata; cropped and resized ones come from the engine's loader."""
    pictures = dict(await backend.pictures.load(messages))
    plain = [ref for ref in pictures if ref == ImageRef(ref.path)]
    return pictures | {ref: Image.open(backend.pictures.renderer.folder / ref.path).convert("RGB") for ref in plain}


async def _refusal(backend: Backend, messages: tuple[Message, ...]) -> dict[str, Any]:
    try:
        reply = await backend.reply(_request(messages))
    except Exception as refusal:
        return {"error": type(refusal).__name__, "why": str(refusal)}
    return {"error": "", "why": reply.text}


async def think(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Map ``plain`` and ``thinking`` to one reply, whose thought the chat template opens and which ``thinking`` cuts off."""
    path, replies = folder / name / "chat_template.jinja", dict[str, Any]()
    template = path.read_text()
    path.write_text(template + "{% if add_generation_prompt %}<think>\n{% endif %}")
    model = entry(name, "transformers", folder)
    thinking = Thinking(budget=NEW_TOKENS)
    for title, limit, chosen in (("plain", NEW_TOKENS, None), ("thinking", NEW_TOKENS, thinking)):
        backend: Any = open_engine(model.model_copy(update={"thinking": chosen}), data)
        try:
            question = prompts(EVERY[name].pictures, data)["1 picture"]
            reply = await backend.reply(make_request(*question, max_tokens=limit))
            replies[title] = {"thought": reply.thought, "text": reply.text.strip(), "tokens": reply.reply_tokens}
        finally:
            await backend.close()
    path.write_text(template)
    return replies


def _request(messages: tuple[Message, ...]) -> Request:
    return make_request(*messages, max_tokens=NEW_TOKENS)


def share_imports() -> None:
    """Fork vLLM's engines from one process that has imported vLLM; by default each engine imports it, in 15 CPU seconds."""
    from vllm.v1.engine import utils

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.actors.rehearsal", "vllm.v1.engine.core", "vllm.v1.worker.cpu_worker"])
    utils.get_mp_context = lambda: context


def main(folder: Path, data: Path, tasks: list[str]) -> None:
    draw(data)
    if any(task.startswith("replies:") for task in tasks) and find_spec("vllm"):
        share_imports()
    for task in tasks:
        kind, _, name = task.partition(":")
        if not (folder / name / "config.json").is_file():
            write_checkpoint(EVERY[name], folder / name)
        try:
            prompts(EVERY[name].pictures, data)  # posed once, because posing runs an event loop
            report = asyncio.run(TASKS[kind](name, folder, data))
        except Exception as problem:
            report = {"failed": f"{type(problem).__name__}: {problem}"}
        print(json.dumps({"task": task, **report}), flush=True)


TASKS = {"ids": collect_ids, "batch": ask_together, "replies": compare_replies, "thoughts": think}

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
