"""Model entries for checkpoints that no sweep names: a folder, or a model on another engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sweeps.checkpoint import with_limits
from sweeps.load import SweepError, find_models
from sweeps.spec import ModelSpec

ENGINES = ("transformers", "vllm")
"""Backends that tokenize in this process."""


def checkpoint_specs(
    names: Sequence[str], sweep: Path | None, backend: str = "", judging: bool = False
) -> list[ModelSpec]:
    """Return entries by name or checkpoint folder; without names all of a sweep file, or all that ship; raises SweepError.

    ``judging`` adds judges.
    """
    if not names:
        return find_models([], sweep, judging)
    return [checkpoint_spec(name, backend) or find_models([name], sweep, judging)[0] for name in names]


def checkpoint_spec(model: str, backend: str = "") -> ModelSpec | None:
    """Return an entry for a checkpoint's folder, or for a model with another backend; None for the name of an entry.

    Raises SweepError for an unknown backend or a folder without ``config.json``.
    """
    if backend and backend not in ENGINES:
        raise SweepError(f"--backend {backend!r} is none of {' and '.join(ENGINES)}")
    if not model or not Path(model).is_dir() or any(model == shipped.name for shipped in find_models([])):
        entry = find_models([model])[0] if model and backend else None
        return with_limits(entry.model_copy(update={"backend": backend, "limits": ()})) if entry else None
    if not (Path(model) / "config.json").is_file():
        raise SweepError(f"{model} is a folder without config.json; name the folder of a checkpoint")
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", Path(model).resolve().name).lstrip(".-_+") or "checkpoint"
    engine: Literal["vllm", "transformers"] = "vllm" if backend == "vllm" else "transformers"
    return with_limits(ModelSpec(name=name, source=model, backend=engine, gpus=0, max_images=256))
