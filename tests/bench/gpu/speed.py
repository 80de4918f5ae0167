"""Parts of ``make gpu`` about speed: a worker beside plain ``generate``, two models on one GPU, and vLLM."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from actors.engine.backend import Request, images_of
from actors.engine.hf.template import prompt_text
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

SAMPLES, BATCH = 256, 32
"""Requests of a pass, and rows of a batch."""
MEASURED_S = 80.0
"""Seconds after which no further pair of passes begins."""
PICTURE = (640, 480)


def measure_model(name: str, device: str, small: bool) -> dict[str, Any]:
    """Return requests/s of the worker and of plain ``generate`` in turns, tokens/s of decoding, and the GPU's busy share."""
    began, (samples, batch, tokens) = time.monotonic(), (8, 4, 6) if small else (SAMPLES, BATCH, TOKENS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_checkpoint(name, folder / "model", small)
        write_data(folder / "data", samples, (112, 84) if small else PICTURE)
        model = describe_model(name, folder / "model", device, batch=batch)
        plan, backend = make_plan(model, folder / "data", tokens), open_transformers(model, folder / "data")
        passes, plain, shares = Passes(), list[float](), list[int]()
        play_pass(make_plan(model, folder / "data", 2), backend, 2 * batch, Passes())  # warms it up
        while len(plain) < 2 or (not small and len(plain) < 5 and time.monotonic() - began < MEASURED_S):
            with sample_busy(device, shares):
                play_pass(plan, backend, 2 * batch, passes)
            plain.append(generate_plainly(backend.model, passes.requests, folder / "data", batch, tokens))
        decoding = time_decoding(backend.model, passes.requests[:batch], folder / "data", tokens)
        asyncio.run(backend.close())
    figures = {
        "worker requests/s": round(samples / statistics.median(passes.seconds), 2),
        "plain requests/s": round(samples / statistics.median(plain), 2),
        "ratio": round(statistics.median(p / w for p, w in zip(plain, passes.seconds, strict=True)), 3),
        "pairs of passes": len(plain),
        "decoded tokens/s": round(decoding),
        "tokens a prompt": round(statistics.mean(reply.prompt_tokens for reply in passes.replies)),
    }
    return figures | ({"busy share": f"{statistics.mean(shares):.0f}%"} if shares else {})


def prepare_plainly(model: Any, requests: Sequence[Request], data: Path) -> Any:
    """Open the pictures and call the processor, as a script without any harness does."""
    pictures = [Image.open(data / ref.path).convert("RGB") for r in requests for ref in images_of(r.messages)]
    texts = [prompt_text(model.processor, request.messages, model.model.chat) for request in requests]
    inputs = model.processor(text=texts, images=pictures, padding=True, return_tensors="pt").to(model.device)
    return {k: v.to(model.network.dtype) if torch.is_floating_point(v) else v for k, v in inputs.items()}


@torch.inference_mode()
def generate_plainly(model: Any, requests: Sequence[Request], data: Path, batch: int, tokens: int) -> float:
    """Return the seconds of plain ``generate`` over the requests, batch by batch."""
    began = time.perf_counter()
    for start in range(0, len(requests), batch):
        inputs = prepare_plainly(model, requests[start : start + batch], data)
        output = model.network.generate(**inputs, max_new_tokens=tokens, do_sample=False)
        model.processor.batch_decode(output, skip_special_tokens=True)
    return time.perf_counter() - began


@torch.inference_mode()
def time_decoding(model: Any, requests: Sequence[Request], data: Path, tokens: int) -> float:
    """Return the tokens/s of one batch after its first token, so without prefill."""
    inputs, seconds = prepare_plainly(model, requests, data), dict[int, float]()
    for count in (1, tokens, 1, tokens):
        began = time.perf_counter()
        model.network.generate(**inputs, max_new_tokens=count, min_new_tokens=count, do_sample=False)
        if model.device == "cuda":
            torch.cuda.synchronize()
        seconds[count] = time.perf_counter() - began
    return len(requests) * (tokens - 1) / (seconds[tokens] - seconds[1])


@contextmanager
def sample_busy(device: str, shares: list[int]) -> Iterator[None]:
    """Append the driver's busy share of the GPU, in percent, five times a second during the block alone."""
    ended = threading.Event()

    def read() -> None:
        while not ended.wait(0.2):
            shares.append(torch.cuda.utilization())

    reader = threading.Thread(target=read, daemon=True)
    if device == "cuda":
        reader.start()
    try:
        yield
    finally:
        ended.set()
        if device == "cuda":
            reader.join()


def measure_two_models(device: str, small: bool) -> dict[str, Any]:
    """Return requests/s of one small model alone, and of two processes that share the GPU."""
    size = "small" if small else "real"
    command = [sys.executable, "-m", "tests.bench.gpu.speed", device, size]

    def run_side_by_side(count: int) -> float:
        processes = [subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True) for _ in range(count)]
        try:
            for process in processes:
                assert process.stdout and process.stdout.readline().strip() == "ready", process.communicate()[1][-300:]
            for process in processes:
                assert process.stdin
                process.stdin.write("go\n")
                process.stdin.flush()
            return sum(json.loads(process.communicate()[0]) for process in processes)
        finally:
            for process in processes:
                process.kill()

    alone, together = run_side_by_side(1), run_side_by_side(2)
    return {"alone requests/s": round(alone, 2), "two together": round(together, 2), "gain": round(together / alone, 2)}


def play_half(device: str, small: bool) -> None:
    """Load a small model on half a GPU, wait for a line, and print the requests/s of one pass."""
    samples, batch, tokens = (8, 4, 6) if small else (128, BATCH, TOKENS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_checkpoint("llava-ov-0.5b", folder / "model", small)
        write_data(folder / "data", samples, (112, 84) if small else PICTURE)
        model = describe_model("llava-ov-0.5b", folder / "model", device, gpus=0.5, batch=batch)
        backend, passes = open_transformers(model, folder / "data"), Passes()
        play_pass(make_plan(model, folder / "data", 2), backend, 2 * batch, Passes())
        print("ready", flush=True)
        sys.stdin.readline()
        play_pass(make_plan(model, folder / "data", tokens), backend, 2 * batch, passes)
        asyncio.run(backend.close())
    print(samples / passes.seconds[0], flush=True)


def measure_vllm(device: str, small: bool) -> dict[str, Any]:
    """Return requests/s of the worker on vLLM with drawn weights, and of plain ``LLM.chat`` over the same requests."""
    from actors.engine.vllm.backend import VLLMBackend
    from actors.engine.vllm.parameters import engine_arguments
    from tests.bench.engine import chat

    name, samples, tokens = ("idefics3", 8, 6) if small else ("qwen2.5-vl-3b", SAMPLES, TOKENS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_checkpoint(name, folder / "model", small)
        write_data(folder / "data", samples, (112, 84) if small else PICTURE)
        options = {"load_format": "dummy", "max_model_len": 4096, "enforce_eager": small}
        model = describe_model(name, folder / "model", device, backend="vllm", **options)
        plan, passes = make_plan(model, folder / "data", tokens), Passes()
        backend = VLLMBackend(model, folder / "data")
        with asyncio.Runner() as loop:
            play_pass(plan, backend, samples, Passes(), loop.run)
            play_pass(plan, backend, samples, passes, loop.run)
            loop.run(backend.close())
        plain = _time_chat(engine_arguments(model), passes.requests, folder / "data", tokens, chat)
    return {"worker requests/s": round(samples / passes.seconds[0], 2), "plain requests/s": round(samples / plain, 2)}


def _time_chat(
    arguments: dict[str, Any], requests: Sequence[Request], data: Path, tokens: int, chat: Callable[..., Any]
) -> float:
    from vllm import LLM, SamplingParams

    from envs.render import Renderer

    llm, sampling = LLM(**arguments), SamplingParams(temperature=0, max_tokens=tokens)
    for _ in range(2):
        began = time.perf_counter()
        llm.chat([chat(request.messages, Renderer(data)) for request in requests], sampling, use_tqdm=False)
    return time.perf_counter() - began


if __name__ == "__main__":
    play_half(sys.argv[1], sys.argv[2] == "small")
