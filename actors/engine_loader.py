"""An engine loads on checked devices and in its turn; every wait and every figure is a line of the worker's log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from actors.backend import Backend
from actors.backend_registry import at_home, engine
from actors.gpu_check import Asked, check
from actors.load_queue import LoadQueue
from sweeps.spec import ModelSpec

UTILIZATION = 0.9
"""Part of a GPU that vLLM takes where the entry's options do not say."""
BESIDE = 1.2
"""Memory that another engine needs, in weights."""
FILES = (".safetensors", ".bin", ".pt", ".gguf")
"""Endings of files that hold weights."""


def load(model: ModelSpec, data: Path, given: Sequence[object], say: Callable[[str], None]) -> Backend:
    """The model's engine, ready; ``given`` are the GPUs that Ray gave this process.

    Raises DeviceProblem when the devices are not as asked, and what ``engine`` raises.
    """
    if model.backend in ("builtin", "openai"):
        return engine(model, data)
    size = weights(at_home(model))
    if model.gpus:
        for line in check(asked(model, size), given, os.environ.get("CUDA_VISIBLE_DEVICES")):
            say(line)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves all of them visible to whoever asked for none
    with LoadQueue().turn(model.name, size, say):
        return engine(model, data)


def asked(model: ModelSpec, size: int | None) -> Asked:
    """What a model with weights of so many bytes asks of its devices."""
    if model.backend == "vllm":
        share = float(model.options.get("gpu_memory_utilization", UTILIZATION))
        return Asked(model.name, model.gpus, model.accelerator, share)
    if size is None:
        return Asked(model.name, model.gpus, model.accelerator, UTILIZATION)
    return Asked(model.name, model.gpus, model.accelerator, size=int(BESIDE * size / model.gpus))


def weights(model: ModelSpec) -> int | None:
    """Bytes of its weights: its files' where they are on this disk, else reckoned from its parameters; None if neither."""
    for folder in (Path(model.source), *_cached(model)):
        if folder.is_dir() and (size := sum(path.stat().st_size for path in folder.iterdir() if path.suffix in FILES)):
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
