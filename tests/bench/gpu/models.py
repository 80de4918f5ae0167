"""Checkpoints of real size with drawn weights, pictures of noise, and the worker's loop over them.

Only configuration and processor are written; the weights are drawn on the device. Their replies name no option, so every episode
is one request.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForImageTextToText

from actors.engine.backend import Reply, Request
from actors.engine.hf import backend as hf
from actors.playing.episode_runner import EpisodeRunner
from envs.samples import load_samples
from envs.types import Sample
from sweeps.conditions import CONDITIONS, Condition
from sweeps.sampling import Sampling
from sweeps.spec import Cell, ModelSpec
from tests.actors.architectures import ARCHITECTURES, published_sizes

QWEN_3B = {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16,
           "num_key_value_heads": 2, "vocab_size": 151936}  # fmt: skip
QWEN_7B = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
           "num_key_value_heads": 4, "vocab_size": 152000}  # fmt: skip
QWEN_HALF_B = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
               "num_key_value_heads": 2, "vocab_size": 152000}  # fmt: skip
SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 26, "num_attention_heads": 16}
QWEN_TOWER = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 2048,
              "fullatt_block_indexes": [7, 15, 23, 31]}  # fmt: skip
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}}
SIZES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "qwen2.5-vl-3b": ("qwen2.5-vl", QWEN_3B | ROPE, QWEN_TOWER),
    "llava-ov-7b": ("llava-onevision", QWEN_7B, SIGLIP),
    "llava-ov-0.5b": ("llava-onevision", QWEN_HALF_B, SIGLIP),
    "idefics3": ("idefics3", {}, {}),
}
"""Model -> its architecture, and the sizes of its text and picture networks as published."""
SPREAD = {"initializer_range": 0.02}
TOKENS = 50
"""New tokens of a reply, as in the benchmark."""


@dataclass(frozen=True)
class OneCellPlan:
    """A plan of one cell, as a worker sees it (``actors.playing.episode_runner.PlanView``)."""

    cells: tuple[Cell, ...]
    pools: Mapping[str, tuple[Sample, ...]]
    seed: int = 0
    turn_judge: None = None

    def task(self, ordinal: int) -> tuple[int, Sample]:
        return 0, self.pools[self.cells[0].scenario][ordinal]

    def key(self, index: int, sample: Sample) -> str:
        return f"{self.cells[index].key}/{sample.id}"

    def episode_seed(self, sample: Sample, condition: Condition | None = None) -> int:
        return sample.id


@dataclass
class Passes:
    """The requests of one pass of the worker, and how long each pass took."""

    requests: list[Request] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def write_checkpoint(name: str, folder: Path, small: bool) -> None:
    """Write configuration and processor of a model of ``SIZES``; tiny layers, but the same classes, if ``small``."""
    kind, text, tower = SIZES[name]
    with nullcontext() if small else published_sizes(kind):
        network, processor = ARCHITECTURES[kind].build()
    settings = network.config.to_dict()
    if not small:
        settings["text_config"] = _without_layers(settings["text_config"]) | text | SPREAD
        settings["vision_config"] = _without_layers(settings["vision_config"]) | tower | SPREAD
    config = type(network.config).from_dict(settings)
    config.architectures = [ARCHITECTURES[kind].kind]
    config.save_pretrained(folder)
    processor.save_pretrained(folder)


def _without_layers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those that transformers derives from the number and width of layers."""
    return {
        key: value for key, value in settings.items() if key not in ("layer_types", "head_dim", "max_window_layers")
    }


def draw_network(model: ModelSpec, device: str, source: Mapping[str, Any]) -> Any:
    """Return the network of a configuration with weights drawn on the device; replaces ``load_network`` here."""
    config = AutoConfig.from_pretrained(model.source)
    torch.manual_seed(0)
    with torch.device(device):
        network = AutoModelForImageTextToText.from_config(config, dtype=getattr(torch, model.dtype))
    return network.eval()


def write_data(folder: Path, samples: int, size: tuple[int, int]) -> None:
    """Write QuickDraw samples with one picture each; every picture is noise of its own."""
    chance = np.random.default_rng(0)
    lines = []
    for number in range(samples):
        (folder / f"QuickDraw/{number}").mkdir(parents=True)
        picture = chance.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(picture).save(folder / f"QuickDraw/{number}/0000.jpg")
        lines.append({
            "id": number, "image_template": f"QuickDraw/{number}/{{image}}.jpg", "first_image": 0, "num_images": 1,
            "reference_image": 0, "prompt": "What is this quickdraw?", "answer": "Cat.",
            "options": ["Add more strokes.", "I cannot tell."], "categories": ["Cat.", "Dog.", "Cup.", "Car."],
        })  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "QuickDraw_preprocessed.jsonl").write_text(text)


def describe_model(
    name: str, folder: Path, device: str, backend: str = "transformers", gpus: float = 1, **options: Any
) -> ModelSpec:
    """Return the entry of a checkpoint that ``write_checkpoint`` wrote."""
    return ModelSpec(
        name=name, source=str(folder), backend=backend, gpus=gpus if device == "cuda" else 0, options=options,
        dtype="bfloat16" if device == "cuda" else "float32",
    )  # fmt: skip


def make_plan(model: ModelSpec, data: Path, tokens: int) -> OneCellPlan:
    """Return the plan of every sample of the data folder, zero-shot and greedy."""
    samples = tuple(load_samples(data, "QD", filtered=False))
    cell = Cell(model=model, scenario="QD", condition=CONDITIONS["zero-shot"], sampling=Sampling(max_tokens=tokens))
    return OneCellPlan((cell,), {"QD": samples})


def open_transformers(model: ModelSpec, data: Path) -> hf.TransformersBackend:
    """Return our transformers engine with drawn weights."""
    hf.load_network = draw_network
    return hf.TransformersBackend(model, data)


def play_pass(
    plan: OneCellPlan, backend: Any, in_flight: int, passes: Passes, run: Callable[..., Any] = asyncio.run
) -> None:
    """Play every sample once through the worker's loop, and record its seconds, requests and replies; vLLM needs one loop."""
    passes.requests, passes.replies = [], []
    answer = backend.reply

    async def record(request: Request) -> Reply:
        passes.requests.append(request)
        reply: Reply = await answer(request)
        passes.replies.append(reply)
        return reply

    async def play() -> int:
        runner = EpisodeRunner(plan, {plan.cells[0].model.name: backend}, in_flight)
        return sum([len(batch.ordinals) async for batch in runner.play(range(len(plan.pools["QD"])))])

    backend.reply, began = record, time.perf_counter()
    try:
        episodes = run(play())
    finally:
        backend.reply = answer
    passes.seconds.append(time.perf_counter() - began)
    assert episodes == len(passes.requests), "a drawn network was understood, so that episodes went on"
