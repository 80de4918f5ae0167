"""One worker on vLLM, its episodes in the plan's order, cell after cell, or at random: what is reused, and what that is worth.

``python -m tests.bench.orders embedded|qwen plan|cells|random DATA SAMPLES FOLDER`` prints one JSON line: seconds by the wall and
of processors, and the percentages of prompt tokens and pictures that came from the engine's caches. ``qwen`` is a tiny random
checkpoint of Qwen2.5-VL's architecture, written into FOLDER, whose pictures have 1,280 tokens each as the paper's have; its
processor needs torchvision (``tests.actors.vision_packages``). Both caches hold a few times what is in flight, as on a GPU that a
model of 7B fills, and less than a cell asks: an order loses what it does not ask again soon.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

from actors.engine.loader import freeze_heap
from actors.engine.registry import open_engine
from actors.playing.episode_runner import EpisodeRunner
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import build
from sweeps.spec import ModelSpec, Sweep
from tests.actors.architectures import write
from tests.bench.__main__ import MODELS, ORDERS
from tests.bench.engine import CONDITIONS, OPTIONS, Clock

PLAYED = ("QD", "ROD")
"""Scenarios: two, so that a cell may be larger than the cache and the bench is done in minutes."""
IN_FLIGHT, FITTING = 8, 3
"""Episodes at once, and how many times their prompts the key-value cache holds."""
TOKENS = {"embedded": 400, "qwen": 1_500}
"""Of a prompt with one picture, about."""
PIXELS = 1_280 * 28 * 28
PICTURES_GB = {"embedded": 0.025, "qwen": 0.4}
"""Of preprocessed pictures: about as many as are in flight, twice."""
COUNTS = ("prompt_tokens", "cached_tokens", "pictures", "cached_pictures")


def sweep(model: str, data: str, folder: Path, limit: int) -> Sweep:
    """``limit``: samples a scenario."""
    caches = {
        "num_gpu_blocks_override": FITTING * IN_FLIGHT * TOKENS[model] // OPTIONS["block_size"],
        "mm_processor_cache_gb": PICTURES_GB[model],
    }
    entry: dict[str, Any] = {
        "name": model,
        "source": "builtin:embedded",
        "backend": "vllm",
        "gpus": 0,
        "dtype": "float32",
        "max_images": 8,
        "in_flight": IN_FLIGHT,
        "options": {**OPTIONS, **caches},
    }
    if model == "qwen":
        entry["source"] = str(
            write("qwen2.5-vl", folder / "qwen") if not (folder / "qwen").exists() else folder / "qwen"
        )
        entry["processor"] = {"min_pixels": PIXELS, "max_pixels": PIXELS}
        entry["options"] |= {"max_model_len": 8_192, "max_num_batched_tokens": 16_384}
    chosen = {"conditions": CONDITIONS, "scenarios": [*PLAYED], "selection": {"limit": limit}}
    return build({"data": data, "model": [entry], **chosen, "name": "bench"}, "bench")


def order_queue(plan: Plan, order: str) -> list[int]:
    (pending,) = plan.pending(()).values()
    if order == "random":
        Random(0).shuffle(pending)
    return sorted(pending) if order == "cells" else pending


async def play_sweep(spec: Sweep, order: str) -> dict[str, Any]:
    model: ModelSpec = spec.models[0]
    backend, plan = open_engine(model, Path(spec.data)), build_plan(spec)
    freeze_heap()
    counts, episodes = dict.fromkeys(COUNTS, 0), 0
    clock = Clock()
    async for batch in EpisodeRunner(plan, {model.name: backend}, IN_FLIGHT).play(order_queue(plan, order)):
        episodes += len(batch.ordinals)
        for name in COUNTS:
            counts[name] += sum(value or 0 for value in batch.episodes[name])
    timings = clock.read()
    await backend.close()
    tokens, cached, pictures, cached_pictures = counts.values()
    return {
        "episodes": episodes,
        "prompt_cached": 100 * cached / tokens,
        "pictures_cached": 100 * cached_pictures / pictures,
        **timings,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.orders")
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("order", choices=ORDERS)
    parser.add_argument("data", help="folder of a demo benchmark with pictures")
    parser.add_argument("samples", type=int, help="samples a scenario")
    parser.add_argument("folder", type=Path, help="where the tiny checkpoint lies, or is written")
    options = parser.parse_args()
    selected = sweep(options.model, options.data, options.folder, options.samples)
    print(json.dumps(asyncio.run(play_sweep(selected, options.order))), flush=True)
