"""One engine and a package-style call on the same checkpoints, prompt by prompt: inputs and replies of both, as JSON lines.

``python -m tests.actors.rehearsal transformers|vllm|ids CHECKPOINTS DATA NAME ...``; ``ids`` asks both engines for token ids
alone, without weights. ``"NAME faithful"`` sets ``faithful`` in the entry. A process of its own, because the packages that some
processors need are on its path alone. Checkpoints that are not there are built; noise pictures are drawn into DATA.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.ExifTags import Base

from actors.engine.backend import Backend, BackendError, Message, Request
from actors.engine.registry import open_engine
from actors.engine.token_ids import open_without_weights
from actors.trial.certify import record_inputs
from envs import SCENARIOS
from envs.samples import BadData, load_samples
from envs.types import ImageRef
from orchestrator.inspection.certificate import certify
from orchestrator.inspection.prompt_preview import conversation
from orchestrator.planning.build_plan import build_plan
from sweeps.conditions import CONDITIONS
from sweeps.engine_options import SPEED_ONLY
from sweeps.load import build
from sweeps.registry import registry
from sweeps.spec import ModelSpec
from tests.actors.architectures import POSITIONS, write_checkpoint
from tests.actors.asking import make_request, user
from tests.actors.newer_architectures import EVERY

SIZES = ((112, 84), (56, 140), (168, 56))
"""Width and height of the pictures, multiples of 28 so that Qwen's fitting changes no pixel; several tilings."""
TURNED, TRANSPARENT = ImageRef("turned.jpg"), ImageRef("transparent.png")
"""A photograph with an EXIF orientation, and a palette with a transparent color."""
PICTURES = 10
MAX_IMAGES = 40
"""Pictures that a prompt may hold."""
NEW_TOKENS = 8
FAITHFUL = " faithful"
"""End of the name of a checkpoint whose entry is faithful."""
QUESTION = "What is this? Choose from the following options. Options:\nA. Fork.\nB. Wait for the cup to move.\n"


def draw(folder: Path) -> None:
    """Draw noise: every patch differs from every other, so that a picture in the wrong place changes the reply."""
    chance = np.random.default_rng(0)
    for number in range(PICTURES):
        width, height = SIZES[number % len(SIZES)]
        Image.fromarray(chance.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    turned = Image.Exif()
    turned[Base.Orientation] = 6
    Image.open(folder / "0.png").save(folder / TURNED.path, exif=turned)
    Image.open(folder / "0.png").quantize(16).save(folder / TRANSPARENT.path, transparency=3)
    (folder / "broken.png").write_bytes(b"\x89PNG no more")


def picture(number: int) -> ImageRef:
    return ImageRef(f"{number}.png")


def prompts(max_pictures: int, data: Path) -> dict[str, tuple[Message, ...]]:
    """Return the conversations for a model that takes so many pictures."""
    conversations = {
        "1 picture": (user(QUESTION, picture(0)),),
        "turned picture": (user(QUESTION, TURNED),),
        "transparent picture": (user(QUESTION, TRANSPARENT),),
    }
    if max_pictures >= PICTURES:
        for number in (3, PICTURES):
            conversations[f"{number} pictures"] = (user(QUESTION, *map(picture, range(number))),)
        conversations["3 turns"] = (
            user(QUESTION, picture(0)), Message("assistant", "B. Wait for the cup to move."),
            user(QUESTION, picture(1)), Message("assistant", "B."), user(QUESTION, picture(2)),
        )  # fmt: skip
        conversations["history"] = longest_conversation(data)
    return conversations


def longest_conversation(data: Path) -> tuple[Message, ...]:
    """Return the longest ``history`` conversation in a benchmark folder: its last turn before the limit."""
    return max((turns(data, name) for name in SCENARIOS), key=len)


def turns(data: Path, scenario: str) -> tuple[Message, ...]:
    """Return the conversation of the scenario's first sample when no suggestion is left."""
    pool = load_samples(data, scenario, filtered=False)
    conversation_so_far: tuple[Message, ...] = ()
    for turn in range(SCENARIOS[scenario].limit(pool[0])):
        try:
            conversation_so_far = conversation(pool[0], pool, CONDITIONS["history"], turn=turn)
        except BadData:
            break
    return conversation_so_far


def refused_prompts(max_pictures: int) -> dict[str, tuple[Message, ...]]:
    """Return prompts that must end their own episode and nothing else."""
    return {
        "unreadable picture": (user(QUESTION, ImageRef("broken.png")),),
        "too long": (user("Wait for it. " * (POSITIONS // 4), picture(0)),),
    }


async def compare_engine(name: str, kind: str, folder: Path, data: Path, faithful: bool) -> dict[str, Any]:
    """Prompt -> ids and reply of the engine and of the package-style call; ``after`` is the first asked again at the end.

    A ``faithful`` model refuses no length.
    """
    from actors.engine.hf.package_call import PackageCall

    max_pictures = EVERY[name].pictures
    package = PackageCall(entry(name, "transformers", folder))
    outcomes: dict[str, Any] = {}
    backend: Any = open_engine(entry(name, kind, folder, faithful), data)
    try:
        for title, messages in prompts(max_pictures, data).items():
            outcomes[title] = {**await _ours(backend, messages), **await _theirs(package, messages, backend)}
        for title, messages in {} if faithful else refused_prompts(max_pictures).items():
            outcomes[title] = await _refusal(backend, messages)
        outcomes["after"] = await _ours(backend, prompts(max_pictures, data)["1 picture"])
    finally:
        await backend.close()
    return outcomes


async def collect_ids(name: str, folder: Path, data: Path, faithful: bool) -> dict[str, Any]:
    """Map each prompt to the ids of each engine and of the package-style call; no weights are read.

    ``certificates`` are those of each engine, ``limits`` is how many items of each modality vLLM lets a prompt hold.
    """
    from actors.engine.hf.package_call import PackageCall

    conversations = prompts(EVERY[name].pictures, data)
    package = PackageCall(entry(name, "transformers", folder))
    ids_by_prompt: dict[str, dict[str, Any]] = {title: {} for title in (*conversations, "certificates")}
    for kind in ("transformers", "vllm") if EVERY[name].vllm else ("transformers",):
        backend = open_without_weights(entry(name, kind, folder, faithful), data)
        try:
            for title, messages in conversations.items():
                ids_by_prompt[title][kind] = await backend.token_ids(_request(messages))
                if kind == "transformers":
                    ids_by_prompt[title]["package"] = package.ids(messages, await _package_pictures(messages, backend))
            ids_by_prompt["certificates"][kind] = await certified(
                name, entry(name, kind, folder, faithful), backend, data
            )
            if kind == "vllm":
                ids_by_prompt["limits"] = dict(backend.engine.renderer.get_mm_processor().info.allowed_mm_limits)
        finally:
            await backend.close()
    return ids_by_prompt


async def certified(name: str, model: ModelSpec, backend: Any, data: Path) -> dict[str, Any]:
    """The certificate of a checkpoint, for a request of every scenario and some conditions."""
    several = EVERY[name].pictures > 1
    conditions = ["zero-shot", "hint", "reference", *(["history", "icl-1"] if several else [])]
    table = {"name": "s", "data": str(data), "models": ["oracle"], "conditions": conditions}
    plan = build_plan(build(table, "s").model_copy(update={"models": (model,)}))
    found = certify(model, await record_inputs(plan, model, backend, data, plan.first_ordinals(model.name)))
    shown = max(request.pictures for request in found.requests.values())
    return {"status": found.status, "outcome": found.describe(), "pictures": shown}


def entry(name: str, kind: str, folder: Path, faithful: bool = False) -> ModelSpec:
    """Return a checkpoint's entry, with what the shipped entry says about its prompt."""
    shipped = registry()[EVERY[name].models[0]]
    options: dict[str, Any] = {"batch": 4}
    if kind == "vllm":
        options = {
            "enforce_eager": True,
            "block_size": 32,
            "max_model_len": POSITIONS,
            "max_num_batched_tokens": 2 * POSITIONS,
            **{option: value for option, value in shipped.options.items() if option not in SPEED_ONLY},
        }
    return ModelSpec(
        name=name,
        source=str(folder / name),
        backend=kind,
        gpus=0,
        dtype="float32",
        max_images=MAX_IMAGES,
        lora=EVERY[name].lora,
        faithful=faithful,
        chat=shipped.chat,
        options=options,
    )


async def _ours(backend: Any, messages: tuple[Message, ...]) -> dict[str, Any]:
    request = _request(messages)
    reply = await backend.reply(request)
    return {"ids": await backend.token_ids(request), "reply": reply.text, "counted": reply.prompt_tokens}


async def _theirs(package: Any, messages: tuple[Message, ...], backend: Any) -> dict[str, Any]:
    pictures = await _package_pictures(messages, backend)
    return {
        "package ids": package.ids(messages, pictures),
        "package reply": package.reply(messages, pictures, NEW_TOKENS),
    }


async def _package_pictures(messages: tuple[Message, ...], backend: Any) -> dict[ImageRef, Image.Image]:
    """Pictures as the package opens them, with all their metadata; cropped and resized ones come from the engine's loader."""
    pictures = dict(await backend.pictures.load(messages))
    plain = [ref for ref in pictures if ref == ImageRef(ref.path)]
    return pictures | {ref: Image.open(backend.pictures.renderer.folder / ref.path).convert("RGB") for ref in plain}


async def _refusal(backend: Backend, messages: tuple[Message, ...]) -> dict[str, Any]:
    try:
        reply = await backend.reply(_request(messages))
    except BackendError as refusal:
        return {"error": type(refusal).__name__, "why": str(refusal)}
    except Exception as refusal:
        return {"error": type(refusal).__name__, "why": str(refusal)}
    return {"error": "", "why": reply.text}


def _request(messages: tuple[Message, ...]) -> Request:
    return make_request(*messages, max_tokens=NEW_TOKENS)


def main(kind: str, folder: Path, data: Path, names: list[str]) -> None:
    draw(data)
    for title in names:
        name, faithful = title.removesuffix(FAITHFUL), title.endswith(FAITHFUL)
        if not (folder / name / "config.json").is_file():
            write_checkpoint(EVERY[name], folder / name)
        try:
            if kind == "ids":
                report = asyncio.run(collect_ids(name, folder, data, faithful))
            else:
                report = asyncio.run(compare_engine(name, kind, folder, data, faithful))
        except Exception as problem:
            report = {"failed": f"{type(problem).__name__}: {problem}"}
        print(json.dumps({"name": title, **report}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
