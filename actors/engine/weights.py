"""Identifies the files of a checkpoint on this machine: by their commit in the Hub's cache, or by a hash of a folder."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from sweeps.checkpoint import cached_repository, checkpoint_folder
from sweeps.package_models import resolve_source
from sweeps.spec import ModelSpec

COMMIT = re.compile(r"[0-9a-f]{40}")
"""A revision that never moves; branches, tags and ``refs/pr/...`` do."""
SETTINGS = (
    "*config.json", "*.index.json", "*.jinja", "*.model", "*.tiktoken", "added_tokens.json", "chat_template*",
    "configuration_*.py", "image_processing_*.py", "merges.txt", "modeling_*.py", "processing_*.py",
    "special_tokens_map.json", "tekken.json", "tokenizer*", "vocab*",
)  # fmt: skip
"""Files next to the weights that change what a model reads or computes."""
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
"""Suffixes of weight files."""
SAMPLES, SAMPLE_BYTES = 16, 1 << 16
"""Number of hashed parts per weight file, and bytes of a part: training changes every part, and hashing 150 GB takes minutes."""


def weights_identity(model: ModelSpec) -> str:
    """Return the commit of a model's weights, or ``sha256:`` and a hash of its folder; empty if they are not on this machine.

    A LoRA adapter in a folder of its own adds ``+`` and its hash.
    """
    if model.backend not in ("vllm", "transformers"):
        return ""
    model = resolve_source(model)
    folder = Path(model.source)
    identity = hash_folder(folder) if folder.is_dir() else cached_commit(model)
    if identity and (adapter := local_adapter(model)):
        return f"{identity}+{hash_folder(adapter)}"
    return identity


def loaded_weights(models: Iterable[ModelSpec]) -> dict[str, str]:
    """Return model -> ``weights_identity``, without models that have no weights here or whose files cannot be read."""
    identities: dict[str, str] = {}
    for model in models:
        with contextlib.suppress(OSError):
            identities[model.name] = weights_identity(model)
    return {name: identity for name, identity in identities.items() if identity}


def comes_from_hub(model: ModelSpec) -> bool:
    """Return True if the weights are those of a Hub repository, cached or not."""
    if model.backend not in ("vllm", "transformers") or model.source.startswith(("builtin:", ".", "/")):
        return False
    return not Path(model.source).is_dir()


def local_adapter(model: ModelSpec) -> Path | None:
    """Return the folder of the model's LoRA adapter, if it is not a part of a Hub repository."""
    folders = [Path(model.lora), Path(model.source) / model.lora] if model.lora else []
    return next((folder for folder in folders if folder.is_dir()), None)


def cached_commit(model: ModelSpec) -> str:
    """Return the commit that the Hub's cache has for a model's revision; empty if it has none."""
    cache = cached_repository(model)
    if COMMIT.fullmatch(model.revision):
        return model.revision if (cache / "snapshots" / model.revision).is_dir() else ""
    try:
        commit = (cache / "refs" / (model.revision or "main")).read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return commit if COMMIT.fullmatch(commit) and (cache / "snapshots" / commit).is_dir() else ""


def hash_folder(folder: Path) -> str:
    """Return ``sha256:`` and a hash of a checkpoint's settings, and of names, sizes and parts of its weight files.

    Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in _setting_files(folder):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    files = sorted(path for path in folder.iterdir() if path.suffix in WEIGHT_SUFFIXES and path.is_file())
    loaded = [path for path in files if path.suffix == ".safetensors"] or files
    for path in loaded:
        _hash_parts(path, digest)
    return f"sha256:{digest.hexdigest()}"


def setting_hashes(model: ModelSpec) -> dict[str, str]:
    """Return file name -> SHA-256 of the settings beside a model's weights; empty if they are not on this disk or unreadable."""
    folder = checkpoint_folder(resolve_source(model))
    try:
        files = _setting_files(folder) if folder else []
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    except OSError:
        return {}


def _setting_files(folder: Path) -> list[Path]:
    return sorted({path for pattern in SETTINGS for path in folder.glob(pattern) if path.is_file()})


def _hash_parts(path: Path, digest: hashlib._Hash) -> None:
    size = path.stat().st_size
    digest.update(f"{path.name} {size}\n".encode())
    last = max(0, size - SAMPLE_BYTES)
    with path.open("rb") as file:
        for start in sorted({number * last // (SAMPLES - 1) for number in range(SAMPLES)}):
            file.seek(start)
            digest.update(file.read(SAMPLE_BYTES))
