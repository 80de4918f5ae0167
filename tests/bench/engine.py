"""The embedded model on vLLM: what a worker reaches, beside plain ``LLM.chat`` over the very same requests.

``python -m tests.bench.engine worker|plain DATA REQUESTS SAMPLES`` prints one JSON line. ``worker`` plays
episodes through the worker's whole path (runner, prompts, pictures, parsing) and writes the requests that were sent to the file
REQUESTS; ``plain`` reads that file, so it needs ``worker`` to have run. Every mode
starts a fresh engine, plays a few episodes of another seed to warm it up, and times the rest: wall time, and the processor
time of this process (the front end) and of its children (the engine), and the steps that the engine took. Every mode opens its
pictures while the clock runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
from uvloop import new_event_loop  # comes with vLLM, and Ray's workers take it where it is

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

from actors.engine.backend import Backend, Message, Reply, Request
from actors.engine.chat_format import Part, conversation
from actors.engine.in_flight import choose_in_flight
from actors.engine.registry import freeze_heap, open_engine
from actors.playing.episode_runner import EpisodeRunner
from envs.render import Renderer
from envs.types import ImageRef
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import build
from sweeps.packages import resolve_source
from sweeps.spec import Sweep

CONDITIONS = ["zero-shot", "hint", "random-proactive", "reference"]
OPTIONS = {"enforce_eager": True, "max_model_len": 4096, "block_size": 32, "gpu_memory_utilization": 0.2}
MODES = ("worker", "plain")


class Clock:
    """Seconds since creation: on the wall, and of processors."""

    def __init__(self) -> None:
        self.began, self.before = time.perf_counter(), self._processors()

    def read(self) -> dict[str, float]:
        """``seconds`` by the wall; ``front_seconds`` and ``engine_seconds`` of processors."""
        front, engine = (now - then for now, then in zip(self._processors(), self.before, strict=True))
        return {"seconds": time.perf_counter() - self.began, "front_seconds": front, "engine_seconds": engine}

    @staticmethod
    def _processors() -> tuple[float, float]:
        children = (child.cpu_times() for child in psutil.Process().children(recursive=True))
        return time.process_time(), sum(times.user + times.system for times in children)


class Steps:
    """Counts the messages with tokens that an engine's client (``engine_core`` of vLLM) takes: one comes for every step."""

    def __init__(self, client: Any, name: str) -> None:
        self.number, take = 0, getattr(client, name)

        def count_step(outputs: Any) -> Any:
            self.number += bool(outputs.outputs)
            return outputs

        async def take_counted() -> Any:
            return count_step(await take())

        setattr(client, name, take_counted if asyncio.iscoroutinefunction(take) else lambda: count_step(take()))


class Recording(Backend):
    """Forwards requests, and records them with their replies."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.asked: list[tuple[Message, ...]] = []
        self.said: dict[int, str] = {}

    async def reply(self, request: Request) -> Reply:
        number = len(self.asked)
        self.asked.append(request.messages)
        reply = await self.backend.reply(request)
        self.said[number] = reply.text
        return reply

    def clear(self) -> None:
        self.asked.clear()
        self.said.clear()

    async def close(self) -> None:
        await self.backend.close()


ENTRY = {
    "name": "embedded",
    "source": "builtin:embedded",
    "backend": "vllm",
    "gpus": 0,
    "dtype": "float32",
    "max_images": 8,
    "options": OPTIONS,
}


def sweep(data: str, limit: int = 1, seed: int = 0, names: Sequence[str] = ("embedded",)) -> Sweep:
    """``limit``: samples a scenario; ``names``: of the models, each of them the embedded one."""
    models = [{**ENTRY, "name": name} for name in names]
    chosen = {"conditions": CONDITIONS, "selection": {"limit": limit}, "seed": seed}
    return build({"data": data, "model": models, **chosen, "name": "bench"}, "bench")


def plan_of(data: str, limit: int, seed: int = 0) -> Plan:
    return build_plan(sweep(data, limit, seed))


async def worker(data: str, requests: Path, samples: int) -> dict[str, Any]:
    """Play the plan as a worker does."""
    entry = sweep(data).models[0]
    opened = open_engine(entry, Path(data))
    backend, at_once = Recording(opened), choose_in_flight(entry, opened.cache_tokens)
    freeze_heap()
    steps = Steps(opened.engine.engine_core, "get_output_async")  # type: ignore[attr-defined]
    await play_plan(plan_of(data, 2, seed=9), backend, at_once)
    backend.clear()
    clock, steps.number = Clock(), 0
    episodes = await play_plan(plan_of(data, samples), backend, at_once)
    measurements = {**clock.read(), "steps": steps.number}
    requests.write_bytes(pickle.dumps(backend.asked))
    replies = digest_replies(backend.asked, [backend.said[number] for number in range(len(backend.asked))])
    await backend.close()
    return {
        "episodes": episodes,
        "requests": len(backend.asked),
        "in_flight": at_once,
        "replies": replies,
        **measurements,
    }


async def play_plan(plan: Plan, backend: Backend, at_once: int) -> int:
    pending = list(plan.pending(())["embedded"])
    episodes = 0
    async for batch in EpisodeRunner(plan, {"embedded": backend}, at_once).play(pending):
        episodes += len(batch.ordinals)
    return episodes


def plain(data: str, requests: Path, begin: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Everything at once into ``LLM.chat``: no game, no turns to wait for. ``begin`` is called when the engine is warm."""
    from vllm import LLM, SamplingParams

    from actors.engine.vllm.parameters import engine_arguments, use_all_cores_but_one

    renderer = Renderer(Path(data))
    use_all_cores_but_one()
    llm = LLM(**engine_arguments(resolve_source(sweep(data).models[0])))
    conversations = pickle.loads(requests.read_bytes())
    sampling, steps = SamplingParams(temperature=0, max_tokens=50), Steps(llm.llm_engine.engine_core, "get_output")
    llm.chat([chat(messages, renderer) for messages in conversations[:20]], sampling, use_tqdm=False)
    begin()
    clock, steps.number = Clock(), 0
    outputs = llm.chat([chat(messages, renderer) for messages in conversations], sampling, use_tqdm=False)
    measurements = {**clock.read(), "steps": steps.number}
    return {
        "requests": len(conversations),
        "replies": digest_replies(conversations, [output.outputs[0].text for output in outputs]),
        **measurements,
    }


def digest_replies(conversations: Iterable[tuple[Message, ...]], replies: Iterable[str]) -> str:
    """Return a digest of requests and replies in any order; decoding is greedy, so it is equal in every mode."""
    pairs = sorted(zip(map(repr, conversations), replies, strict=True))
    return sha256(repr(pairs).encode()).hexdigest()[:16]


def chat(messages: Sequence[Message], renderer: Renderer) -> list[dict[str, Any]]:
    def picture(ref: ImageRef) -> Part:
        return {"type": "image_pil", "image_pil": renderer.picture(ref), "uuid": f"bench-{ref.key}"}

    return conversation(messages, picture)


def main(mode: str, data: str, requests: Path, samples: int) -> None:
    if mode == "plain":
        report = plain(data, requests)
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            report = runner.run(worker(data, requests, samples))
    print(json.dumps({"mode": mode, **report}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.engine")
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("data", help="folder of a demo benchmark with pictures")
    parser.add_argument("requests", type=Path, help="file that `worker` writes and `plain` reads")
    parser.add_argument("samples", type=int, help="samples a scenario")
    main(**vars(parser.parse_args()))
