"""Parts of ``make gpu`` about faults and equality: memory that runs out, a device assert, and batches of several sizes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from actors.engine.backend import BackendDied, Request
from actors.engine.hf.backend import TransformersBackend
from tests.bench.gpu import CannotRunHere
from tests.bench.gpu.models import (
    TOKENS,
    Passes,
    describe_model,
    make_plan,
    open_transformers,
    play_pass,
    write_checkpoint,
    write_data,
)

TOGETHER = 16
BATCHES = (1, 8, 32)


@contextmanager
def open_model(name: str, device: str, small: bool, samples: int, batch: int) -> Iterator[tuple[Any, list[Request]]]:
    """Yield an engine with drawn weights and the requests of so many samples."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_checkpoint(name, folder / "model", small)
        write_data(folder / "data", samples, (112, 84) if small else (640, 480))
        model = describe_model(name, folder / "model", device, batch=batch)
        backend, passes = open_transformers(model, folder / "data"), Passes()
        play_pass(make_plan(model, folder / "data", 6 if small else TOKENS), backend, samples, passes)
        try:
            yield backend, passes.requests
        finally:
            asyncio.run(backend.close())


def ask(backend: TransformersBackend, requests: Sequence[Request]) -> list[Any]:
    """Return the replies of requests that are sent side by side; an error in place of each that failed."""

    async def gather() -> list[Any]:
        return list(await asyncio.gather(*map(backend.reply, requests), return_exceptions=True))

    return asyncio.run(gather())


def measure_faults(device: str, small: bool) -> dict[str, Any]:
    """Meet the driver's own errors: a batch that does not fit, then token ids beyond the vocabulary."""
    if device != "cuda":
        raise CannotRunHere("memory that runs out and device asserts need a CUDA device")
    with open_model("llava-ov-0.5b", device, small, TOGETHER, TOGETHER) as (backend, requests):
        expected = [ask(backend, [request])[0].text for request in requests]
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        ask(backend, requests[:1])
        peak, (_, total) = torch.cuda.max_memory_reserved(), torch.cuda.mem_get_info()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1.0, 1.1 * peak / total))
        replies = ask(backend, requests)
        torch.cuda.set_per_process_memory_fraction(1.0)
        refused = [reply for reply in replies if isinstance(reply, Exception)]
        assert not refused, f"not answered: {refused[:1]}"
        equal = sum(reply.text == text for reply, text in zip(replies, expected, strict=True))
        size = backend.size
        prepare = backend.model.inputs
        backend.model.inputs = lambda jobs: _exceed_vocabulary(prepare(jobs))
        lost = ask(backend, requests[:1])[0]
        backend.model.inputs = prepare
        after = ask(backend, requests[1:2])[0]
    assert isinstance(lost, BackendDied) and isinstance(after, BackendDied), (lost, after)
    return {
        "answered": f"{TOGETHER} of {TOGETHER}",
        "equal": equal,
        "batch afterwards": size,
        "assert": str(lost)[:160],
    }


def _exceed_vocabulary(inputs: Any) -> Any:
    inputs["input_ids"][:, -1] = 10**6
    return inputs


def compare_batches(device: str, small: bool) -> dict[str, Any]:
    """Return the share of replies that differ from those of a batch of one, greedy, with drawn weights."""
    samples, texts = 8 if small else 64, dict[int, list[str]]()
    with open_model("qwen2.5-vl-3b", device, small, samples, 1) as (backend, requests):
        for size in BATCHES:
            backend.size = size
            texts[size] = [reply.text for reply in ask(backend, requests)]
    changed = {size: sum(a != b for a, b in zip(texts[1], texts[size], strict=True)) for size in BATCHES[1:]}
    return {f"changed in batches of {size}": f"{count} of {samples}" for size, count in changed.items()}
