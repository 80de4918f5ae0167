"""Loads a worker's engine: on checked GPUs, and one after the other where host memory is short, or GPUs are several or shared.

Every wait and every figure is a line of the worker's log.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from actors.backend import Backend
from actors.backend_registry import at_home, engine
from actors.gpu_check import DEFAULT_GPU_SHARE, GpuRequest, check
from actors.hub_retry import persistently
from actors.load_queue import LoadQueue
from actors.root_cause import root_cause_named
from sweeps.spec import ModelSpec

MEMORY_PER_WEIGHTS = 1.2
"""GPU memory that an engine other than vLLM needs at least, as a multiple of its weights."""
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
"""Endings of files that hold weights."""


def load(model: ModelSpec, data: Path, assigned: Sequence[object], report: Callable[[str], None]) -> Backend:
    """The model's engine, ready; ``assigned`` are the GPUs that Ray gave this process, ``report`` takes lines of the log.

    A Hub that does not answer is asked again, outside the turn. Raises HubUnreachable when it stays so, DeviceProblem when the
    devices are not as asked, and what ``engine`` raises.
    """
    if model.backend in ("builtin", "openai"):
        return engine(model, data)
    size = weight_bytes(at_home(model))
    if model.gpus:
        for line in check(gpu_request(model, size), assigned, os.environ.get("CUDA_VISIBLE_DEVICES")):
            report(line)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves all of them visible to whoever asked for none

    def in_turn() -> Backend:
        with LoadQueue().turn(model.name, size, report, alone=model.gpus not in (0, 1)), root_cause_named():
            return engine(model, data)

    return persistently(in_turn, model.name, report)


def keep_heap() -> None:
    """Leave what is loaded out of garbage collection from now on: walking the objects of torch, transformers and vLLM again and
    again takes a sixth of the front end's time."""
    gc.collect()
    gc.freeze()


def gpu_request(model: ModelSpec, size: int | None) -> GpuRequest:
    """What a model with ``size`` bytes of weights needs of its devices; of a shared one, its part of the memory."""
    share = DEFAULT_GPU_SHARE * min(1, model.gpus)
    if model.backend == "vllm":
        share = float(model.options.get("gpu_memory_utilization", share))
        return GpuRequest(model.name, model.gpus, model.accelerator, share)
    if size is None:
        return GpuRequest(model.name, model.gpus, model.accelerator, share)
    each = int(MEMORY_PER_WEIGHTS * size / max(1, model.gpus))
    return GpuRequest(model.name, model.gpus, model.accelerator, size=each)


def weight_bytes(model: ModelSpec) -> int | None:
    """Bytes of its weights: of the files where they are on this disk, else estimated from its parameters, else None."""
    for folder in (Path(model.source), *_cached(model)):
        if folder.is_dir() and (
            size := sum(path.stat().st_size for path in folder.iterdir() if path.suffix in WEIGHT_SUFFIXES)
        ):
            return size
    if model.parameters is None:
        return None
    return int(model.parameters * 1e9 * (4 if model.dtype == "float32" else 2))


def _cached(model: ModelSpec) -> list[Path]:
    """Where the Hub's cache has the model on this disk, the revision asked for first."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    found = cache / f"models--{model.source.replace('/', '--')}" / "snapshots"
    return sorted(found.glob("*"), key=lambda path: path.name != model.revision)
