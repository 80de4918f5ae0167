"""One engine and a package-style call on the same checkpoints, prompt by prompt: what both get and say, as JSON lines.

``python -m tests.actors.rehearsal transformers|vllm|ids CHECKPOINTS DATA NAME ...``; ``ids`` asks both engines for token ids
alone, without weights. A process of its own, because the packages that some processors need are on its path alone. Checkpoints
that are not there are built; noise pictures are drawn into DATA.
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
from envs import SCENARIOS
from envs.samples import BadData, load_samples
from envs.types import ImageRef
from orchestrator.inspection.prompt_preview import conversation
from sweeps.conditions import CONDITIONS
from sweeps.spec import ModelSpec
from tests.actors.architectures import ARCHITECTURES, POSITIONS, write
from tests.actors.asking import asked, user

SIZES = ((112, 84), (56, 140), (168, 56))
"""Width and height of the pictures, multiples of 28 so that Qwen's fitting changes no pixel; several tilings."""
TURNED, TRANSPARENT = ImageRef("turned.jpg"), ImageRef("transparent.png")
"""A photograph with an EXIF orientation, and a palette with a transparent color."""
PICTURES = 10
MAX_IMAGES = 40
"""Pictures that a prompt may hold."""
NEW_TOKENS = 8
QUESTION = "What is this? Choose from the following options. Options:\nA. Fork.\nB. Wait for the cup to move.\n"


def draw(folder: Path) -> None:
    """Noise: every patch differs from every other, so that a picture in the wrong place changes the reply."""
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


def prompts(most: int, data: Path) -> dict[str, tuple[Message, ...]]:
    """What is asked of a model that takes so many pictures."""
    found = {
        "1 picture": (user(QUESTION, picture(0)),),
        "turned picture": (user(QUESTION, TURNED),),
        "transparent picture": (user(QUESTION, TRANSPARENT),),
    }
    if most >= PICTURES:
        for number in (3, PICTURES):
            found[f"{number} pictures"] = (user(QUESTION, *map(picture, range(number))),)
        found["3 turns"] = (
            user(QUESTION, picture(0)), Message("assistant", "B. Wait for the cup to move."),
            user(QUESTION, picture(1)), Message("assistant", "B."), user(QUESTION, picture(2)),
        )  # fmt: skip
        found["history"] = longest(data)
    return found


def longest(data: Path) -> tuple[Message, ...]:
    """The longest conversation of the condition ``history`` in a benchmark folder: its last turn before the limit."""
    return max((turns(data, name) for name in SCENARIOS), key=len)


def turns(data: Path, scenario: str) -> tuple[Message, ...]:
    """The conversation of the scenario's first sample when nothing more can be asked."""
    pool = load_samples(data, scenario, filtered=False)
    found: tuple[Message, ...] = ()
    for turn in range(SCENARIOS[scenario].limit(pool[0])):
        try:
            found = conversation(pool[0], pool, CONDITIONS["history"], turn=turn)
        except BadData:
            break
    return found


def refused(most: int) -> dict[str, tuple[Message, ...]]:
    """What must end an episode, and nothing else."""
    return {
        "unreadable picture": (user(QUESTION, ImageRef("broken.png")),),
        "too long": (user("Wait for it. " * (POSITIONS // 4), picture(0)),),
    }


async def compared(name: str, kind: str, folder: Path, data: Path) -> dict[str, Any]:
    """Prompt -> ids and reply of the engine and of the package-style call; ``after`` is the first asked again at the end."""
    from actors.engine.hf.package_call import PackageCall

    most = ARCHITECTURES[name].pictures
    package = PackageCall(entry(name, "transformers", folder))
    found: dict[str, Any] = {}
    backend: Any = open_engine(entry(name, kind, folder), data)
    try:
        for title, messages in prompts(most, data).items():
            found[title] = {**await _ours(backend, messages), **await _theirs(package, messages, backend)}
        for title, messages in refused(most).items():
            found[title] = await _refusal(backend, messages)
        found["after"] = await _ours(backend, prompts(most, data)["1 picture"])
    finally:
        await backend.close()
    return found


async def ids_alone(name: str, folder: Path, data: Path) -> dict[str, Any]:
    """Prompt -> ids that each engine would get, and those of the package-style call; no weights are read.

    ``limits`` is how many items of each modality vLLM lets a prompt hold.
    """
    from actors.engine.hf.package_call import PackageCall

    asked_for = prompts(ARCHITECTURES[name].pictures, data)
    package = PackageCall(entry(name, "transformers", folder))
    found: dict[str, dict[str, Any]] = {title: {} for title in asked_for}
    for kind in ("transformers", "vllm") if ARCHITECTURES[name].vllm else ("transformers",):
        backend = open_without_weights(entry(name, kind, folder), data)
        try:
            for title, messages in asked_for.items():
                found[title][kind] = await backend.token_ids(_request(messages))
                if kind == "transformers":
                    found[title]["package"] = package.ids(messages, await _package_pictures(messages, backend))
            if kind == "vllm":
                found["limits"] = dict(backend.engine.renderer.get_mm_processor().info.allowed_mm_limits)
        finally:
            await backend.close()
    return found


def entry(name: str, kind: str, folder: Path) -> ModelSpec:
    options: dict[str, Any] = {"batch": 4}
    if kind == "vllm":
        options = {
            "enforce_eager": True,
            "block_size": 32,
            "max_model_len": POSITIONS,
            "max_num_batched_tokens": 2 * POSITIONS,
        }
    return ModelSpec(
        name=name,
        source=str(folder / name),
        backend=kind,
        gpus=0,
        dtype="float32",
        max_images=MAX_IMAGES,
        lora=ARCHITECTURES[name].lora,
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
    return asked(*messages, max_tokens=NEW_TOKENS)


def main(kind: str, folder: Path, data: Path, names: list[str]) -> None:
    draw(data)
    for name in names:
        if not (folder / name / "config.json").is_file():
            write(name, folder / name)
        try:
            found = asyncio.run(ids_alone(name, folder, data) if kind == "ids" else compared(name, kind, folder, data))
        except Exception as problem:
            found = {"failed": f"{type(problem).__name__}: {problem}"}
        print(json.dumps({"name": name, **found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
