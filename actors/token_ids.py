"""The token ids of a prompt, made by the input path of its engine; no weights are read and nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from actors.backend import Request
from actors.backend_registry import at_home, engine
from sweeps.spec import ModelSpec

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "ERROR"}
"""Settings of the engines' packages, read when they are imported; the environment's own stay."""


async def token_ids(model: ModelSpec, data: Path, request: Request) -> list[int]:
    """What a model of backend vllm or transformers reads, pictures expanded.

    Raises what building its input path raises (OSError, ValueError, ImportError), and what that raises for a prompt or a
    picture that it refuses.
    """
    backend = input_path(model, data)
    try:
        ids: list[int] = await backend.token_ids(request)
        return ids
    finally:
        await backend.close()


def input_path(model: ModelSpec, data: Path) -> Any:
    """The backend of a model without its weights: ``token_ids`` and ``close`` work, ``reply`` does not; raises as above."""
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)
    model = at_home(model)
    if model.backend == "vllm":
        from actors.vllm_input import without_engine

        return without_engine(model, data)
    return engine(model.model_copy(update={"options": {**model.options, "device_map": "meta"}}), data)
