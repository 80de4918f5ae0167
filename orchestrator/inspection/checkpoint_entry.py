"""Model entries for checkpoints that no sweep names: a folder, or a model on another engine."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sweeps.checkpoint import with_limits
from sweeps.load import SweepError, find_models
from sweeps.spec import ModelSpec
from sweeps.sweep_file import read_sweep

ENGINES = ("transformers", "vllm")
"""Backends that tokenize in this process."""


def checkpoint_specs(
    names: Sequence[str], sweep: Path | None, backend: str = "", judging: bool = False
) -> list[ModelSpec]:
    """Return the entries of names or checkpoint folders; without names, those of the sweep file or all shipped ones.

    ``judging`` includes judges. Raises SweepError.
    """
    if not names:
        return find_models([], sweep, judging)
    return [checkpoint_spec(name, backend) or find_models([name], sweep, judging)[0] for name in names]


def own_entry(name: str, sweep: Path | None, backend: str = "") -> ModelSpec | None:
    """Return the model that a sweep file plays under this name; None without a file or if it plays no such model.

    Raises SweepError.
    """
    if sweep is None or not (name and name in played_names(read_sweep(sweep))):
        return None
    (entry,) = find_models([name], sweep)
    return with_limits(entry.model_copy(update={"backend": backend, "limits": ()})) if backend else entry


def played_names(table: Mapping[str, Any]) -> set[str]:
    """Return the names in ``models`` and the ``[[model]]`` tables of a parsed sweep file."""
    entries = (table.get(key, []) for key in ("models", "model"))
    listed = [entry for value in entries for entry in (value if isinstance(value, list) else [value])]
    names = (entry.get("name") if isinstance(entry, dict) else entry for entry in listed)
    return {name for name in names if isinstance(name, str)}


def checkpoint_spec(model: str, backend: str = "") -> ModelSpec | None:
    """Return an entry for a checkpoint's folder, or the named entry with ``backend``; None for a name without a backend.

    Raises SweepError for an unknown backend or a folder without ``config.json``.
    """
    if backend and backend not in ENGINES:
        raise SweepError(f"--backend must be {' or '.join(ENGINES)}, not {backend!r}")
    if not model or not Path(model).is_dir() or any(model == shipped.name for shipped in find_models([])):
        entry = find_models([model])[0] if model and backend else None
        return with_limits(entry.model_copy(update={"backend": backend, "limits": ()})) if entry else None
    if not (Path(model) / "config.json").is_file():
        raise SweepError(f"{model} is a folder without config.json; name the folder of a checkpoint")
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", Path(model).resolve().name).lstrip(".-_+") or "checkpoint"
    engine: Literal["vllm", "transformers"] = "vllm" if backend == "vllm" else "transformers"
    return with_limits(ModelSpec(name=name, source=model, backend=engine, gpus=0, max_images=256))
