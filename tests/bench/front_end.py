"""Requests a second that a worker's front end sustains, on vLLM for an engine that answers at once and on transformers.

``python -m tests.bench.front_end ARCHITECTURE FOLDER PICTURES`` prints one JSON line. A tiny random checkpoint has the published
processor's tiles; each request has one picture and the words of a first turn: a new picture each time, or in the order of a
plan, which shows a picture under one condition after the other. On vLLM all that happens between a request and the engine's
process is done but the socket; on transformers, all before the network.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image

from actors.engine.backend import Request, Situation
from actors.engine.batching import Job
from actors.engine.hf.backend import ModelAndProcessor
from actors.engine.image_loader import PictureLoader
from actors.engine.vllm.backend import open_without_engine
from actors.playing.prompts import messages, turn_view
from envs import SCENARIOS
from envs.samples import load_samples
from envs.types import ImageRef, Sample
from sweeps.conditions import CONDITIONS
from sweeps.spec import ModelSpec, Sampling
from tests.actors.architectures import published_sizes, write
from tests.benchmark import copy_benchmark

SIZES = ((640, 480), (1280, 960))
AT_ONCE, ROWS, CONDITIONS_A_PICTURE = 64, 32, 5
"""Requests in flight on vLLM, rows of a batch on transformers, and requests in a row with one picture in the order of a plan."""


class Null:
    """An engine's client whose engine answers at once."""

    def __init__(self, renderer: Any) -> None:
        from vllm.v1.engine.input_processor import InputProcessor
        from vllm.v1.serial_utils import MsgpackEncoder

        self.inputs, self.encoder = InputProcessor(renderer.config, renderer), MsgpackEncoder()

    async def generate(self, prompt: Any, choices: Any, number: str, lora_request: Any = None) -> AsyncIterator[Any]:
        request = self.inputs.process_inputs(number, prompt, choices, ("generate",))
        self.encoder.encode(request)
        output = SimpleNamespace(text="A", token_ids=[0], finish_reason="stop")
        yield SimpleNamespace(
            finished=True, outputs=[output], prompt_token_ids=request.prompt_token_ids, num_cached_tokens=0
        )

    async def is_sleeping(self) -> bool:
        return False


def photographs(folder: Path, size: tuple[int, int], number: int) -> list[ImageRef]:
    """Write ``number`` different JPEGs of a size: smoothed colored noise, which costs as much to decode as a photograph."""
    draws = np.random.default_rng(0)
    for n in range(number):
        coarse = Image.fromarray(draws.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(folder / f"{size[0]}-{n}.jpg", quality=90)
    return [ImageRef(f"{size[0]}-{n}.jpg") for n in range(number)]


def first_turn(sample: Sample, image: ImageRef, before: str = "") -> Request:
    """Build the sample's first turn about another picture."""
    state, condition = SCENARIOS[sample.scenario].initial(sample), CONDITIONS["zero-shot"]
    view = turn_view(sample, state, condition)
    (message,) = messages(sample, view, condition, (), ())
    prompt = message._replace(text=before + message.text, images=(image,))
    return Request((prompt,), Sampling(), 0, Situation(sample, state, view))


async def measure_replies(backend: Any, requests: Sequence[Request]) -> dict[str, float]:
    """Return requests per second with ``AT_ONCE`` of them in flight, and processor milliseconds per request."""
    room, before, began = asyncio.Semaphore(AT_ONCE), time.process_time(), time.perf_counter()

    async def reply_in_turn(request: Request) -> None:
        async with room:
            await backend.reply(request)

    await asyncio.gather(*map(reply_in_turn, requests))
    return rates(len(requests), before, began)


async def measure_batches(model: ModelAndProcessor, folder: Path, requests: Sequence[Request]) -> dict[str, float]:
    """Return requests per second of the transformers worker's preparation, and processor milliseconds per request."""
    loader = PictureLoader(folder, model.model)
    jobs = [Job(request, await loader.load(request.messages)) for request in requests]
    before, began = time.process_time(), time.perf_counter()
    for first in range(0, len(jobs), ROWS):
        model.inputs(jobs[first : first + ROWS])
    return rates(len(jobs), before, began)


def rates(requests: int, before: float, began: float) -> dict[str, float]:
    """Return the two measures of requests since ``before`` on the processor's clock and ``began`` on the wall's, in seconds."""
    taken, used = time.perf_counter() - began, time.process_time() - before
    return {"requests/s": requests / taken, "CPU ms a request": 1e3 * used / requests}


async def main(architecture: str, folder: Path, pictures: int) -> None:
    with published_sizes(architecture):
        source = write(architecture, folder / architecture)
    model = ModelSpec(name=architecture, source=str(source), backend="vllm", gpus=0, options={"max_model_len": 16384})
    plain = ModelAndProcessor(model.model_copy(update={"backend": "transformers", "options": {}, "dtype": "bfloat16"}))
    processor: Any = plain.caching_processor.image_processor
    keeping = processor.preprocess
    copy_benchmark(folder / "demo", per_scenario=1)
    sample = load_samples(folder / "demo", "QD", filtered=False)[0]
    measures = {}
    for size in SIZES:
        photos = photographs(folder, size, pictures + 1)
        backend: Any = open_without_engine(model, folder)
        null = Null(backend.engine.renderer)
        backend.engine.generate, backend.engine.is_sleeping = null.generate, null.is_sleeping
        await measure_replies(backend, [first_turn(sample, photos.pop())])
        new = await measure_replies(backend, [first_turn(sample, image) for image in photos])
        backend.engine.renderer.clear_mm_cache()
        in_order = [first_turn(sample, image, f"{n}. ") for image in photos for n in range(CONDITIONS_A_PICTURE)]
        name = "x".join(map(str, size))
        measures[name] = {"new": new, "order": await measure_replies(backend, in_order)}
        await backend.close()
        await measure_batches(plain, folder, in_order[:ROWS])
        for kind, processor.preprocess in (("kept", keeping), ("not kept", keeping.preprocess)):
            measures[name][kind] = await measure_batches(plain, folder, in_order)
    print(json.dumps(measures))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.front_end")
    parser.add_argument("architecture", help="a name of tests.actors.architectures that vLLM serves")
    parser.add_argument("folder", type=Path, help="an empty folder")
    parser.add_argument("pictures", type=int)
    asyncio.run(main(**vars(parser.parse_args())))
