"""Opens the backend of a model entry; a heavy package is imported only if it is used.

A worker loads its engine on checked GPUs: one after another if host memory is short or two engines would disturb each other.
Every wait and every measurement is a line of its log.
"""

import fcntl
import gc
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from actors.engine.backend import Backend
from actors.engine.baselines import Baseline
from actors.node.gpu_check import DEFAULT_GPU_SHARE, GpuRequest, check_gpus
from actors.node.process_output import name_root_cause
from sweeps.checkpoint import read_checkpoint
from sweeps.packages import missing_package, resolve_source
from sweeps.spec import ModelSpec

HEAVY = ("openai", "peft", "torch", "transformers", "vllm")
"""The optional packages of the backends; peft loads adapters for transformers."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "ERROR"}
"""Variables that keep the engines' packages offline and quiet, read at import; existing values take precedence."""
MEMORY_PER_WEIGHTS = 1.2
"""Least GPU memory of an engine other than vLLM, as a multiple of its weights."""
MEMORY_MARGIN_BYTES = 2 * 2**30
"""Bytes of host memory that a process takes in addition to the weights."""
HUB_CLIENTS = ("httpx", "httpx2", "requests")
"""The packages whose errors mean that a request to the Hub failed; huggingface_hub itself has tried six times."""


def open_engine(model: ModelSpec, data: Path) -> Backend:
    """Return the backend of a model entry, ready; ``data`` is the benchmark folder.

    Raises ValueError if the backend's package is not installed, and errors of an engine that cannot load.
    """
    if reason := missing_package(model):
        raise ValueError(f"{model.name}: {reason}")
    try:
        return _open(resolve_source(model), data)
    except ModuleNotFoundError as missing:
        if missing.name not in HEAVY:
            raise
        extra = f"pip install 'proactive-sweep[{model.backend}]'"
        raise ValueError(f"{model.name} needs the package {missing.name}, which is not installed: {extra}") from missing


def _open(model: ModelSpec, data: Path) -> Backend:
    match model.backend:
        case "builtin":
            return Baseline(model.source.removeprefix("builtin:"), model.revision)
        case "openai":
            from actors.engine.openai.backend import OpenAIBackend

            return OpenAIBackend(model, data)
        case "transformers":
            from actors.engine.hf.backend import TransformersBackend

            return TransformersBackend(model, data)
        case "vllm":
            if model.options.get("batch_invariant"):  # vLLM reads it when it is imported
                os.environ["VLLM_BATCH_INVARIANT"] = "1"
            from actors.engine.vllm.backend import VLLMBackend

            return VLLMBackend(model, data)
        case "human":
            raise ValueError(f"{model.name} is a person, who plays with `proactive-sweep play`, not in a sweep")


def open_without_weights(model: ModelSpec, data: Path) -> Any:
    """Return a backend without weights: ``model_input`` and ``close`` work, ``reply`` does not; raises as the engine does."""
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)
    model = resolve_source(model)
    if model.backend == "vllm":
        from actors.engine.vllm.backend import open_without_engine

        return open_without_engine(model, data)
    return open_engine(model.model_copy(update={"options": {**model.options, "device_map": "meta"}}), data)


# -- on a worker -------------------------------------------------------------------------------------------------------
class HubUnreachable(RuntimeError):
    """The Hub did not answer; a later start of a worker may succeed."""


def load_engine(model: ModelSpec, data: Path, assigned: Sequence[object], report: Callable[[str], None]) -> Backend:
    """Return the model's engine, ready; ``data`` is the benchmark folder, ``assigned`` are the GPUs from Ray.

    Raises HubUnreachable if the Hub does not answer, GpuUnavailable if the devices are not as requested, and errors of
    ``open_engine``.
    """
    if model.backend in ("builtin", "openai"):
        return open_engine(model, data)
    size = weight_bytes(resolve_source(model))
    if model.gpus:
        for line in check_gpus(gpu_request(model, size), assigned, os.environ.get("CUDA_VISIBLE_DEVICES")):
            report(line)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves all GPUs visible to a worker without any

    try:
        with loading_turn(model.name, report, must_load_alone(model, size)), name_root_cause():
            return open_engine(model, data)
    except Exception as problem:
        if reason := unreachable_reason(problem):
            raise HubUnreachable(f"the Hub does not answer for {model.name} ({reason})") from problem
        raise


def unreachable_reason(problem: BaseException | None) -> str:
    """Return why the Hub did not answer, if that is what an error or one of its causes says; empty for refusals and others."""
    while problem is not None and type(problem).__name__ != "OfflineModeIsEnabled":
        if any(base.__module__.partition(".")[0] in HUB_CLIENTS for base in type(problem).__mro__):
            status = getattr(getattr(problem, "response", None), "status_code", None)
            if status is None:
                return str(problem) or type(problem).__name__
            return f"HTTP {status}" if status == 429 or status >= 500 else ""
        problem = problem.__cause__ or problem.__context__
    return ""


def must_load_alone(model: ModelSpec, size: int | None) -> bool:
    """Return True if no other engine of the node may load at the same time.

    The host's free memory must hold these weights twice. An engine on a part of a GPU measures the GPU's free memory, which
    another load would change.
    """
    fits = size is not None and 2 * (size + MEMORY_MARGIN_BYTES) <= psutil.virtual_memory().available
    return 0 < model.gpus < 1 or not fits


@contextmanager
def loading_turn(model: str, report: Callable[[str], None], alone: bool = False) -> Iterator[None]:
    """Hold the node's loading lock, shared with other engines unless this one loads ``alone``; it is freed with the process."""
    mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with (Path(tempfile.gettempdir()) / f"proactive-sweep-loading-{os.getuid()}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{model} waits for its turn to load")
            fcntl.flock(lock, mode)
        yield


def freeze_heap() -> None:
    """Exclude all present objects from garbage collection, which otherwise takes a sixth of the front end's time."""
    gc.collect()
    gc.freeze()


def gpu_request(model: ModelSpec, size: int | None) -> GpuRequest:
    """Return the device needs of a model with ``size`` bytes of weights."""
    share = DEFAULT_GPU_SHARE * min(1, model.gpus)
    if model.backend != "vllm" and size is not None:
        size_per_gpu = int(MEMORY_PER_WEIGHTS * size / max(1, model.gpus))
        return GpuRequest(model.name, model.gpus, size=size_per_gpu)
    if model.backend == "vllm":
        share = float(model.options.get("gpu_memory_utilization", share))
    return GpuRequest(model.name, model.gpus, share)


def weight_bytes(model: ModelSpec) -> int | None:
    """Return the size of the weights in bytes, from local files or else the number of parameters; None if both are unknown."""
    if (checkpoint := read_checkpoint(model)) and checkpoint.weight_bytes:
        return checkpoint.weight_bytes
    if model.parameters is None:
        return None
    return int(model.parameters * 1e9 * (4 if model.dtype == "float32" else 2))
