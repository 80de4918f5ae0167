"""Parts of ``make gpu`` about speed: preprocessing, the busy share of a worker, and random weights at real size."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.bench.gpu.part import NotHere

LENGTHS = (3_000, 15_000, 32_000)
"""Tokens of a prompt: one picture, a conversation with history, and a full context."""
WIDTHS = (64, 256)
"""Requests side by side."""
NEW_TOKENS = 32


# -- preprocessing -----------------------------------------------------------------------------------------------------
def preprocessing(device: str, small: bool) -> dict[str, Any]:
    """Pictures of 640x480 through Idefics3's processor (up to 17 tiles, needs no torchvision), workers side by side."""
    number, rates = (8 if small else 64), dict[str, Any]()
    cores = os.cpu_count() or 1
    for kind, pool in (("threads", ThreadPoolExecutor), ("processes", ProcessPoolExecutor)):
        for workers in [count for count in (1, 2, 4, 8, 16) if count <= cores][: 2 if small else None]:
            options: dict[str, Any] = {}
            if pool is ProcessPoolExecutor:
                options["mp_context"] = multiprocessing.get_context("spawn")
            with pool(workers, **options) as executor:
                rates[f"{workers} {kind}"] = f"{_rate(executor, workers, number):.1f}/s"
    return rates


def _rate(executor: Executor, workers: int, number: int) -> float:
    list(executor.map(_preprocess, range(2 * workers)))  # each worker imports and builds its processor first
    began = time.monotonic()
    list(executor.map(_preprocess, range(number)))
    return number / (time.monotonic() - began)


def _preprocess(seed: int) -> int:
    import numpy as np
    import torch
    from PIL import Image

    torch.set_num_threads(1)
    pixels = np.random.default_rng(seed).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    return len(_processor()(Image.fromarray(pixels))["pixel_values"])


@cache
def _processor() -> Any:
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    return Idefics3ImageProcessorPil(size={"longest_edge": 4 * 364}, max_image_size={"longest_edge": 364})


# -- a worker at work --------------------------------------------------------------------------------------------------
def busy(device: str, small: bool) -> dict[str, Any]:
    """The embedded model plays the demo as a worker does; the driver's utilisation is read five times a second."""
    from sweeps.registry import registry
    from tests.benchmark import copy_benchmark

    entry = registry()["embedded"].model_copy(update={"gpus": int(device == "cuda")})
    with tempfile.TemporaryDirectory() as temporary:
        copy_benchmark(Path(temporary, "data"), per_scenario=1 if small else 50)
        with _utilisation() as readings:
            episodes, seconds = asyncio.run(_play_demo(entry, Path(temporary, "data")))
    share = f"{sum(readings) / len(readings):.0f}%" if readings and device == "cuda" else "not told"
    return {"GPU busy": share, "episodes/s": round(episodes / seconds, 1), "episodes": episodes}


async def _play_demo(entry: Any, data: Path) -> tuple[int, float]:
    from actors.engine.in_flight import expected_in_flight
    from actors.engine.registry import open_engine
    from actors.playing.episode_runner import EpisodeRunner
    from orchestrator.planning.build_plan import build_plan
    from sweeps.load import build

    sweep = build(
        {"name": "gpu", "data": str(data), "models": ["embedded"], "conditions": ["zero-shot", "history"]}, "gpu"
    )
    plan, backend = build_plan(sweep), open_engine(entry, data)
    began, episodes = time.monotonic(), 0
    async for block in EpisodeRunner(plan, {entry.name: backend}, expected_in_flight(entry)).play(range(plan.total)):
        episodes += len(block.ordinals)
    seconds = time.monotonic() - began
    await backend.close()
    return episodes, seconds


@contextmanager
def _utilisation() -> Iterator[list[float]]:
    from actors.node.nvml import DriverUnavailable, utilization

    readings: list[float] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.wait(0.2):
            try:
                shares = [v for name, v in utilization().items() if name.endswith("utilization_percentage")]
            except DriverUnavailable:
                return
            readings.extend(share for share in shares[:1])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield readings
    finally:
        ended.set()
        reader.join()


# -- real size ---------------------------------------------------------------------------------------------------------
def configurations(small: bool) -> dict[str, Any]:
    """Model -> its configuration as published; two thin layers where ``small``."""
    from transformers import InternVLConfig, LlavaOnevisionConfig, Qwen2_5_VLConfig

    text = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "max_position_embeddings": 32768}  # fmt: skip
    if small:
        text |= {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
                 "num_key_value_heads": 2}  # fmt: skip
    edge = {"image_size": 56} if small else {}
    thin = (
        {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2} if small else {}
    )
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6] if small else [16, 24, 24]}
    seeing = (
        {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2} if small else {"hidden_size": 1280}
    )
    siglip = {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 14,
              "image_size": 384, "num_hidden_layers": 26, "num_attention_heads": 16, "vision_use_head": False}  # fmt: skip
    return {
        "Qwen2.5-VL-7B": Qwen2_5_VLConfig(
            vision_config={**seeing, "out_hidden_size": text["hidden_size"]},
            text_config={**text, "vocab_size": 152064, "rope_parameters": rope},
        ),
        "InternVL3-8B": InternVLConfig(
            vision_config={**thin, **edge}, text_config={"model_type": "qwen2", **text, "vocab_size": 151674}
        ),
        "LLaVA-OV-7B": LlavaOnevisionConfig(
            vision_config={**siglip, **thin, **edge}, text_config={"model_type": "qwen2", **text, "vocab_size": 152000}
        ),
    }


def _network(config: Any, device: str) -> Any:
    import torch
    from transformers import AutoModelForImageTextToText

    with torch.device(device):
        network = AutoModelForImageTextToText.from_config(
            config, dtype=torch.bfloat16 if device == "cuda" else torch.float32
        )
    return network.eval()


def _ids(rows: int, length: int, device: str) -> Any:
    import torch

    return torch.randint(10, 1000, (rows, length), device=device, generator=torch.Generator(device).manual_seed(0))


def prefill(device: str, small: bool) -> dict[str, Any]:
    """Text alone: the vision tower's share is not in it. A length that does not fit says so."""
    import torch

    timings: dict[str, Any] = {}
    for name, config in configurations(small).items():
        network = _network(config, device)
        for length in (64, 128) if small else LENGTHS:
            try:
                seconds, peak = _time_prefill(network, _ids(1, length, device), device)
                timings[f"{name} {length}"] = f"{seconds:.2f} s, {peak:.1f} GiB"
            except torch.OutOfMemoryError:
                timings[f"{name} {length}"] = "out of memory"
        del network
        if device == "cuda":
            torch.cuda.empty_cache()
    return timings


def _time_prefill(network: Any, ids: Any, device: str) -> tuple[float, float]:
    """Seconds and peak GiB of a prompt's pass, the second of two."""
    import torch

    for _ in range(2):
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        began = time.monotonic()
        with torch.inference_mode():
            network(input_ids=ids, logits_to_keep=1)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.monotonic() - began
    return seconds, torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0


def decode(device: str, small: bool) -> dict[str, Any]:
    """New tokens a second of all rows together, prompts of 256 tokens, through transformers' ``generate``."""
    if device == "cuda":
        import torch

        if torch.cuda.mem_get_info()[1] < 40 * 2**30 and not small:
            raise NotHere("a 7B model and 256 rows need about 40 GiB")
    network, rates = _network(configurations(small)["Qwen2.5-VL-7B"], device), dict[str, Any]()
    for rows in (2, 8) if small else WIDTHS:
        ids, tokens = _ids(rows, 16 if small else 256, device), 4 if small else NEW_TOKENS
        options = {"do_sample": False, "min_new_tokens": tokens, "max_new_tokens": tokens, "pad_token_id": 0}
        network.generate(input_ids=ids, max_new_tokens=1, do_sample=False, pad_token_id=0)
        began = time.monotonic()
        network.generate(input_ids=ids, **options)
        rates[f"{rows}-way"] = f"{rows * tokens / (time.monotonic() - began):.0f} tokens/s"
    return rates
