"""The embedded model on vLLM: what a worker reaches, beside plain ``LLM.chat`` over the very same requests.

``python -m tests.bench.engine worker|cell-after-cell|plain DATA REQUESTS SAMPLES`` prints one JSON line. The first two play
episodes through the worker's whole path (runner, prompts, pictures, parsing) in the plan's order and cell by cell, and write the
requests that were sent to the file REQUESTS; ``plain`` reads that file, so it needs one of the others to have run. Every mode
starts a fresh engine, plays a few episodes of another seed to warm it up, and times the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

from actors.backend import Backend, Message, Reply, Request
from actors.backend_registry import at_home, engine
from actors.episode_runner import EpisodeRunner
from envs import SCENARIOS
from envs.render import Renderer
from envs.samples import load, select
from orchestrator.planning.plan import Plan, planned
from sweeps.load import build
from sweeps.spec import Protocol, Sweep

CONDITIONS = ["zero-shot", "hint", "random-proactive", "reference"]
OPTIONS = {"enforce_eager": True, "max_model_len": 4096, "block_size": 32, "gpu_memory_utilization": 0.2}
MODES = ("worker", "cell-after-cell", "plain")


class Recording:
    """Passes requests on, and keeps what was asked."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.asked: list[tuple[Message, ...]] = []

    async def reply(self, request: Request) -> Reply:
        self.asked.append(request.messages)
        return await self.backend.reply(request)

    async def close(self) -> None:
        await self.backend.close()


def sweep(data: str, seed: int = 0) -> Sweep:
    entry = {
        "name": "embedded",
        "source": "builtin:embedded",
        "backend": "vllm",
        "gpus": 0,
        "dtype": "float32",
        "max_images": 8,
        "options": OPTIONS,
    }
    return build({"data": data, "model": [entry], "conditions": CONDITIONS, "seed": seed, "name": "bench"}, "bench")


def plan_of(data: str, limit: int, seed: int = 0) -> Plan:
    found = sweep(data, seed)
    pools = {name: load(Path(data), name) for name in SCENARIOS}
    drawn = {name: select(pool, limit, seed=seed) for name, pool in pools.items()}
    return planned(found, {Protocol.MCQA: drawn}, pools)


async def worker(data: str, requests: Path, samples: int, by_cell: bool) -> dict[str, Any]:
    """Play the plan as a worker does."""
    entry = sweep(data).models[0]
    backend = Recording(engine(entry, Path(data)))
    await played(plan_of(data, 2, seed=9), backend, sorted)
    backend.asked.clear()
    began = time.perf_counter()
    episodes = await played(plan_of(data, samples), backend, sorted if by_cell else list)
    seconds = time.perf_counter() - began
    requests.write_bytes(pickle.dumps(backend.asked))
    await backend.close()
    return {"episodes": episodes, "requests": len(backend.asked), "seconds": seconds}


async def played(plan: Plan, backend: Backend, order: Any) -> int:
    pending = order(plan.pending(())["embedded"])
    episodes = 0
    async for batch in EpisodeRunner(plan, {"embedded": backend}, in_flight=64).play(pending):
        episodes += len(batch.ordinals)
    return episodes


def plain(data: str, requests: Path) -> dict[str, Any]:
    """Everything at once into ``LLM.chat``: no game, no turns to wait for."""
    from vllm import LLM, SamplingParams

    renderer = Renderer(Path(data))
    llm = LLM(
        model=at_home(sweep(data).models[0]).source,
        dtype="float32",
        limit_mm_per_prompt={"image": 8},
        max_num_seqs=256,
        max_num_batched_tokens=16384,
        **OPTIONS,
    )
    chats = [
        [
            {
                "role": message.role,
                "content": [
                    *(
                        {"type": "image_pil", "image_pil": renderer.picture(ref), "uuid": f"bench-{ref.key}"}
                        for ref in message.images
                    ),
                    {"type": "text", "text": message.text},
                ],
            }
            for message in conversation
        ]
        for conversation in pickle.loads(requests.read_bytes())
    ]
    sampling = SamplingParams(temperature=0, max_tokens=50)
    llm.chat(chats[:20], sampling, use_tqdm=False)
    began = time.perf_counter()
    llm.chat(chats, sampling, use_tqdm=False)
    return {"requests": len(chats), "seconds": time.perf_counter() - began}


def main(mode: str, data: str, requests: Path, samples: int) -> None:
    by_cell = mode == "cell-after-cell"
    found = plain(data, requests) if mode == "plain" else asyncio.run(worker(data, requests, samples, by_cell))
    print(json.dumps({"mode": mode, **found}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.engine")
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("data", help="folder of a demo benchmark with pictures")
    parser.add_argument("requests", type=Path, help="file that the first two modes write and `plain` reads")
    parser.add_argument("samples", type=int, help="samples a scenario")
    main(**vars(parser.parse_args()))
