"""Computes the token ids of a prompt with its engine's own input path, without weights and downloads."""

import os
from pathlib import Path
from typing import Any

from actors.embedded import resolve_embedded
from actors.engine.backend import Request
from actors.engine.registry import open_engine
from sweeps.spec import ModelSpec

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "ERROR"}
"""Environment variables of the engines' packages, read at import; existing values take precedence."""


async def token_ids(model: ModelSpec, data: Path, request: Request) -> list[int]:
    """Return the ids that a model of backend vllm or transformers reads, pictures expanded.

    Raises OSError, ValueError or ImportError if the input path cannot be built, and its errors for a refused prompt or picture.
    """
    backend = open_without_weights(model, data)
    try:
        ids: list[int] = await backend.token_ids(request)
        return ids
    finally:
        await backend.close()


def open_without_weights(model: ModelSpec, data: Path) -> Any:
    """Return a backend without weights: ``token_ids`` and ``close`` work, ``reply`` does not; raises as ``token_ids``."""
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)
    model = resolve_embedded(model)
    if model.backend == "vllm":
        from actors.engine.vllm.token_input import open_without_engine

        return open_without_engine(model, data)
    return open_engine(model.model_copy(update={"options": {**model.options, "device_map": "meta"}}), data)
