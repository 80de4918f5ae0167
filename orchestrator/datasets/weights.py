"""Downloads models' weights into this machine's caches, of the Hub or of packages' models, where every engine looks for them.

Only files that engines read are downloaded; existing files are kept, and broken downloads are resumed.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from actors.node.hub_retry import PAUSES_S, retry_hub
from orchestrator.datasets.remote_files import FetchError, short_message
from sweeps.package_models import BUILTIN, find_package_model
from sweeps.spec import ModelSpec

READ = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py", "*.safetensors", "*.bin")
"""Files that an engine reads: configurations, tokenizers, templates, code of the model, weights."""
COPIES = ("original/*", "consolidated*", "onnx/*", "openvino/*")
"""Copies of the weights for other programs."""

Say = Callable[[str], None]


def fetched_models(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Return the models whose weights an installed package or the Hub brings, each source once."""
    by_source: dict[tuple[str, str], ModelSpec] = {}
    for model in models:
        offer = find_package_model(model)
        is_local = model.source.startswith(BUILTIN) or Path(model.source).is_dir()
        if (offer and offer.fetch) or not (model.backend in ("builtin", "openai") or is_local):
            by_source.setdefault((model.source, model.revision), model)
    return list(by_source.values())


def fetch_all(models: Sequence[ModelSpec], say: Say, pauses: Sequence[float] = PAUSES_S) -> list[str]:
    """Download each model's weights; if one fails, report it and continue. Return the names of failed models."""
    failed = []
    for model in fetched_models(models):
        try:
            offer = find_package_model(model)
            offer.fetch(say) if offer and offer.fetch else fetch_weights(model, say, pauses)
        except FetchError as problem:
            failed.append(model.name)
            say(str(problem))
    return failed


def fetch_weights(model: ModelSpec, say: Say, pauses: Sequence[float] = PAUSES_S) -> None:
    """Fetch the files of a model that engines read; ``pauses`` is passed to ``retry_hub``.

    Raises FetchError: no such model, no access, a full disk, or a Hub that does not answer.
    """
    try:
        retry_hub(lambda: _fetch(model, say), model.name, say, pauses)
    except FetchError:
        raise
    except ModuleNotFoundError:
        raise FetchError(f"{model.name} is on the Hub: pip install 'proactive-sweep[hub]'") from None
    except Exception as problem:  # from the network stack; its first line is the Hub's message
        raise FetchError(f"{model.name}: {short_message(problem)}; rerun the same command to resume") from None


def _fetch(model: ModelSpec, say: Say) -> None:
    from huggingface_hub import constants, snapshot_download

    folder = Path(model.options.get("download_dir") or constants.HF_HUB_CACHE)
    request: Any = {"revision": model.revision or "main", "cache_dir": folder}
    files: Any = snapshot_download(
        model.source, **request, allow_patterns=list(READ), ignore_patterns=list(COPIES), dry_run=True
    )
    if any(file.filename.endswith(".safetensors") for file in files):
        files = [file for file in files if not file.filename.endswith(".bin")]
    if not files:
        raise FetchError(f"{model.name}: {model.source} holds no file that an engine reads")
    if missing := sum(file.file_size for file in files if file.will_download):
        say(f"{model.name}: {len(files)} files, {_size(missing)} to fetch")
        _check_space(model, folder, missing)
        snapshot_download(model.source, **request, allow_patterns=[file.filename for file in files])
        say(f"{model.name}: {_size(missing)} fetched")


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
