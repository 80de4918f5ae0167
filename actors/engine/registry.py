"""Opens the backend of a model entry, with or without weights; a heavy package is imported only if it is used."""

import os
from pathlib import Path
from typing import Any

from actors.engine.backend import Backend
from actors.engine.baselines import Baseline
from sweeps.packages import missing_package, resolve_source
from sweeps.spec import ModelSpec

HEAVY = ("openai", "peft", "torch", "transformers", "vllm")
"""The optional packages of the backends; peft loads adapters for transformers."""
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "ERROR"}
"""Variables that keep the engines' packages offline and quiet, read at import; existing values take precedence."""


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
