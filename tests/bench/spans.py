"""Where the front end of a worker on vLLM spends its processor time, request by request: the embedded model's requests.

``python -m tests.bench.spans DATA SAMPLES`` prints one JSON line: milliseconds of processor time a request for every span, each
counted in the thread that it runs in, and of the wall for the two waits. Spans do not overlap; what the event loop does besides
is ``the rest of the loop``. The watch over them costs about a tenth itself: it shows where time goes, not how much.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from actors.engine.in_flight import choose_in_flight
from actors.engine.loader import freeze_heap
from actors.engine.registry import open_engine
from tests.bench.engine import Recording, plan_of, play_plan, sweep

LOOP = "the rest of the loop"
WAITS = ("until rendered", "until answered")


class Spans:
    """Seconds of processor time (of wall for ``WAITS``) by span; inner spans are taken out of outer ones."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.in_loop = 0.0
        """Of all spans that ran in the event loop's thread."""
        self.loop = threading.get_ident()
        self._inner = threading.local()

    def timed(self, span: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed_call(*args: Any, **kwargs: Any) -> Any:
            outer = getattr(self._inner, "seconds", 0.0)
            self._inner.seconds, began = 0.0, time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                taken = time.thread_time() - began
                self._count(span, taken - self._inner.seconds)
                self._inner.seconds = outer + taken

        return timed_call

    def _count(self, span: str, seconds: float) -> None:
        self.seconds[span] += seconds
        if threading.get_ident() == self.loop:
            self.in_loop += seconds

    def collected(self, phase: str, info: object) -> None:
        """For ``gc.callbacks``."""
        if phase == "start":
            self._inner.began = time.thread_time()
        else:
            taken = time.thread_time() - self._inner.began
            self._count("garbage collection", taken)
            self._inner.seconds = getattr(self._inner, "seconds", 0.0) + taken

    def watch(self, owner: Any, name: str, span: str) -> None:
        setattr(owner, name, self.timed(span, getattr(owner, name)))


def watch_all() -> Spans:
    """Watch every step between a sample and its row; to be called before the engine is made."""
    from vllm.renderers import hf
    from vllm.renderers.base import BaseRenderer
    from vllm.v1.engine.input_processor import InputProcessor
    from vllm.v1.engine.output_processor import OutputProcessor
    from vllm.v1.serial_utils import MsgpackEncoder

    from actors.playing import episode_rules, episode_runner
    from envs.render import Renderer
    from envs.scenario import Scenario

    spans = Spans()
    spans.watch(Renderer, "picture", "picture: open, crop, resize")
    spans.watch(hf, "parse_chat_messages", "template")
    spans.watch(hf, "safe_apply_chat_template", "template")
    spans.watch(BaseRenderer, "_tokenize_prompt", "tokenise")
    spans.watch(BaseRenderer, "_process_multimodal", "preprocess")
    spans.watch(InputProcessor, "process_inputs", "hand over: check, clone")
    spans.watch(MsgpackEncoder, "encode", "hand over: encode")
    spans.watch(OutputProcessor, "process_outputs", "detokenise")
    for name in ("turn_view", "messages", "repair_reply"):
        spans.watch(episode_rules, name, "game and prompt")
    spans.watch(Scenario, "step", "game and prompt")
    spans.watch(episode_runner, "episode_batch", "row")
    return spans


def count_waits(spans: Spans, backend: Any) -> None:
    """Count what a request waits on the wall, for its prompt and for its answer."""
    prepared, generate = backend.prompts.prepare, backend.engine.generate

    async def timed_render(messages: Any) -> Any:
        began = time.perf_counter()
        try:
            return await prepared(messages)
        finally:
            spans.seconds[WAITS[0]] += time.perf_counter() - began

    async def timed_generate(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        began = time.perf_counter()
        async for output in generate(*args, **kwargs):
            yield output
        spans.seconds[WAITS[1]] += time.perf_counter() - began

    backend.prompts.prepare, backend.engine.generate = timed_render, timed_generate


async def main(data: str, samples: int) -> None:
    spans = watch_all()
    entry = sweep(data).models[0]
    opened: Any = open_engine(entry, Path(data))
    count_waits(spans, opened)
    backend, at_once = Recording(opened), choose_in_flight(entry, opened.cache_tokens).episodes
    freeze_heap()
    await play_plan(plan_of(data, 2, seed=9), backend, list, at_once)
    backend.clear()
    spans.seconds.clear()
    spans.in_loop = 0.0
    gc.callbacks.append(spans.collected)
    loop = time.thread_time()
    await play_plan(plan_of(data, samples), backend, list, at_once)
    spans.seconds[LOOP] = time.thread_time() - loop - spans.in_loop
    gc.callbacks.remove(spans.collected)
    each = {span: 1e3 * seconds / len(backend.asked) for span, seconds in spans.seconds.items()}
    await opened.close()
    print(json.dumps({"requests": len(backend.asked), "spans": each}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.spans")
    parser.add_argument("data", help="folder of a demo benchmark with pictures")
    parser.add_argument("samples", type=int, help="samples a scenario")
    asyncio.run(main(**vars(parser.parse_args())))
