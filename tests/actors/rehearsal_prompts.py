"""The checkpoints' entries, and the prompts and noise pictures with which ``tests.actors.rehearsal`` compares them."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.ExifTags import Base

from actors.engine.backend import Message
from envs import SCENARIOS
from envs.samples import load_samples
from envs.types import ImageRef
from orchestrator.inspection.prompt_preview import pose
from sweeps.checkpoint import with_limits
from sweeps.engine_options import SPEED_ONLY
from sweeps.load import build_cell
from sweeps.registry import registry
from sweeps.spec import ModelSpec
from tests.actors.architectures import POSITIONS
from tests.actors.asking import user
from tests.actors.newer_architectures import EVERY

SIZES = ((112, 84), (56, 140), (168, 56))
"""Width and height of the pictures, multiples of 28 so that Qwen's fitting changes no pixel; several tilings."""
TURNED, TRANSPARENT = ImageRef("turned.jpg"), ImageRef("transparent.png")
"""A photograph with an EXIF orientation, and a palette with a transparent color."""
PICTURES = 10
MAX_IMAGES = 40
"""Pictures that a prompt may hold."""
UNREADABLE = "unreadable picture"
QUESTION = "What is this? Choose from the following options. Options:\nA. Fork.\nB. Wait for the cup to move."


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


@cache
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
    return pose(pool[0], pool, build_cell(scenario, "history"))[0][-1].messages


def refused_prompts(max_pictures: int) -> dict[str, tuple[Message, ...]]:
    """Return prompts that must end their own episode and nothing else."""
    return {
        UNREADABLE: (user(QUESTION, ImageRef("broken.png")),),
        "too long": (user("Wait for it. " * (POSITIONS // 4), picture(0)),),
    }


def entry(name: str, kind: str, folder: Path, faithful: bool = False) -> ModelSpec:
    """Return a checkpoint's entry, with what the shipped entry says about its prompt."""
    shipped = registry()[EVERY[name].models[0]] if EVERY[name].models else ModelSpec(name=name, source=name)
    options: dict[str, Any] = {"batch": 4}
    if kind == "vllm":
        options = {
            "enforce_eager": True,
            "block_size": 32,
            "max_model_len": POSITIONS,
            "max_num_batched_tokens": 2 * POSITIONS,
            **{option: value for option, value in shipped.options.items() if option not in SPEED_ONLY},
        }
    model = ModelSpec(
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
    return with_limits(model)
