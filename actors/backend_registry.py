"""Maps a backend's name to what makes it; a heavy package is imported only when its backend is used."""

from __future__ import annotations

from pathlib import Path

from actors.backend import Backend
from actors.baselines import Baseline
from actors.batch_invariance import batch_invariant
from sweeps.spec import ModelSpec

EMBEDDED = "builtin:embedded"
"""Source of the tiny model that ships with the tree."""
HEAVY = ("openai", "peft", "torch", "transformers", "vllm")
"""The packages behind the doors; peft loads adapters for transformers."""


def engine(model: ModelSpec, data: Path) -> Backend:
    """The backend of a model entry, loaded and ready; ``data`` is the benchmark folder its pictures lie in.

    Raises ValueError when the backend's package is not installed, and what the engine raises when it cannot load: the
    worker reports it as the model's failure to start.
    """
    try:
        return _opened(at_home(model), data)
    except ModuleNotFoundError as missing:
        if missing.name not in HEAVY:
            raise
        extra = f"pip install 'proactive-sweep[{model.backend}]'"
        raise ValueError(f"{model.name} needs the package {missing.name}, which is not installed: {extra}") from missing


def at_home(model: ModelSpec) -> ModelSpec:
    """The entry with the embedded model's source as the folder where it lies on this machine."""
    if model.source != EMBEDDED:
        return model
    return model.model_copy(update={"source": str(Path(__file__).with_name("embedded")), "revision": ""})


def _opened(model: ModelSpec, data: Path) -> Backend:
    match model.backend:
        case "builtin":
            return Baseline(model.source.removeprefix("builtin:"), model.revision)
        case "openai" if model.batch:
            from actors.openai_batch import OpenAIBatchBackend

            return OpenAIBatchBackend(model, data)
        case "openai":
            from actors.openai_backend import OpenAIBackend

            return OpenAIBackend(model, data)
        case "transformers":
            from actors.hf_backend import TransformersBackend

            return TransformersBackend(model, data)
        case "vllm":
            batch_invariant(model)
            from actors.vllm_backend import VLLMBackend

            return VLLMBackend(model, data)
        case "human":
            raise ValueError(f"{model.name} is a person, who plays with `proactive-sweep play`, not in a sweep")
