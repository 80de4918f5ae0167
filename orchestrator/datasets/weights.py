"""Brings the weights of models to this machine's Hub cache, where every engine looks for them.

Only files that an engine reads are fetched; what is there is not fetched again, and a broken download goes on where it stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from actors.hub_retry import PAUSES_S, persistently
from orchestrator.datasets.hub import FetchError, Snapshot
from orchestrator.datasets.remote_files import short
from sweeps.spec import ModelSpec

READ = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
"""Files beside the weights that an engine reads: configurations, tokenizers, templates, code of the model."""
WEIGHTS = ("*.safetensors", "*.bin")
"""Weights; the second kind only where a model has none of the first."""
COPIES = ("original/*", "consolidated*", "onnx/*", "openvino/*")
"""The same weights once more, for other programs."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one model needed."""

    files: int
    size: int
    """Bytes of all its files."""
    arrived: int
    """Bytes that were not there before."""


def from_hub(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Those models whose weights the Hub has: no policy, no service, no folder of this machine; each source once."""
    found: dict[tuple[str, str], ModelSpec] = {}
    for model in models:
        ours = model.backend in ("builtin", "openai") or model.source.startswith("builtin:")
        if not ours and not Path(model.source).is_dir():
            found.setdefault((model.source, model.revision), model)
    return list(found.values())


def fetch_all(models: Sequence[ModelSpec], say: Say, pauses: Sequence[float] = PAUSES_S) -> list[str]:
    """Fetch each model's weights; one that fails says why and stops no other. Answers the names of those that failed."""
    wanted, failed, arrived = from_hub(models), [], 0
    for model in wanted:
        try:
            arrived += fetch(model, say, pauses).arrived
        except FetchError as problem:
            failed.append(model.name)
            say(str(problem))
    are = "model is" if len(wanted) == 1 else "models are"
    say(f"{len(wanted) - len(failed)} of {len(wanted)} {are} here, {_size(arrived)} fetched now")
    return failed


def fetch(model: ModelSpec, say: Say, pauses: Sequence[float] = PAUSES_S) -> Fetched:
    """Fetch what engines read of a model; ``say`` takes a line before and after, ``pauses`` are ``persistently``'s.

    Raises FetchError: no such model, no access, a full disk, or a Hub that does not answer.
    """
    try:
        return persistently(lambda: _fetch(model, say), model.name, say, pauses)
    except FetchError:
        raise
    except Exception as problem:  # from the network stack; its first line tells what the Hub said
        raise FetchError(f"{model.name}: {short(problem)}; the same command goes on from what has arrived") from None


def _fetch(model: ModelSpec, say: Say) -> Fetched:
    began = perf_counter()
    remote = Snapshot(model.source, model.revision or "main", model.options.get("download_dir"))
    files = remote.listed((*READ, *WEIGHTS), COPIES)
    if any(file.name.endswith(".safetensors") for file in files):
        files = [file for file in files if not file.name.endswith(".bin")]
    if not files:
        raise FetchError(f"{model.name}: {model.source} holds no file that an engine reads")
    size, missing = sum(file.size for file in files), sum(file.size for file in files if not file.there)
    say(f"{model.name}: {len(files)} files, {_size(size)}; {_size(size - missing)} are here, {_size(missing)} to fetch")
    if missing:
        _check_space(model, remote.folder, missing)
        remote.download([file.name for file in files])
        say(f"{model.name}: {_size(missing)} fetched in {perf_counter() - began:.0f} s")
    return Fetched(len(files), size, missing)


def _check_space(model: ModelSpec, folder: Path, missing: int) -> None:
    """Raises FetchError where the disk of the cache cannot hold what is missing."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if (free := shutil.disk_usage(there).free) < missing:
        raise FetchError(
            f"{model.name}: {_size(missing)} are to fetch and {_size(free)} are free in {there}; "
            "let HF_HOME name a larger disk on this node"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count:,} bytes"
