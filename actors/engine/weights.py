"""Identifies the files of a checkpoint on this machine: by their commit in the Hub's cache, or by a hash of a folder."""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from sweeps.checkpoint import cached_snapshot, checkpoint_folder
from sweeps.packages import resolve_source
from sweeps.spec import ModelSpec

SETTINGS = (
    "*config.json", "*.index.json", "*.jinja", "*.model", "*.tiktoken", "added_tokens.json", "chat_template*",
    "configuration_*.py", "image_processing_*.py", "merges.txt", "modeling_*.py", "processing_*.py",
    "special_tokens_map.json", "tekken.json", "tokenizer*", "vocab*",
)  # fmt: skip
"""Files next to the weights that change what a model reads or computes."""
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
SAMPLES, SAMPLE_BYTES = 16, 1 << 16
"""Number of hashed parts per weight file, and bytes of a part: hashing 150 GB takes minutes."""
TENSOR_BYTES, MAX_HEADER_BYTES = 1 << 12, 100 << 20
"""Bytes that are hashed at the beginning, in the middle and at the end of each tensor; the largest header of safetensors."""


def weights_identity(model: ModelSpec) -> str:
    """Return the commit of a model's weights, or the hash of its folder; empty if they are not on this machine.

    A folder has ``sha256:``, the hash of earlier versions, a dot, and a hash that covers every tensor. A LoRA adapter in a
    folder of its own adds ``+`` and its hash.
    """
    if model.backend not in ("vllm", "transformers"):
        return ""
    model = resolve_source(model)
    folder = Path(model.source)
    identity = _identify_folder(folder) if folder.is_dir() else cached_commit(model)
    adapters = (Path(model.lora), folder / model.lora) if model.lora else ()
    if identity and (adapter := next(filter(Path.is_dir, adapters), None)):  # else it is a part of a Hub repository
        return f"{identity}+{_identify_folder(adapter)}"
    return identity


def same_weights(before: str, now: str) -> bool:
    """Return True if two identities belong to the same weights; those of earlier versions do not cover every tensor."""
    pairs = [[part.partition(".")[::2] for part in identity.split("+")] for identity in (before, now)]
    if len(pairs[0]) != len(pairs[1]):
        return False
    parts = zip(*pairs, strict=True)
    return all(a == b and (not tensors or not others or tensors == others) for (a, tensors), (b, others) in parts)


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


def cached_commit(model: ModelSpec) -> str:
    """Return the commit that the Hub's cache has for a model's revision; empty if it has none, or no readable reference."""
    with contextlib.suppress(OSError):
        snapshot = cached_snapshot(model)
        return snapshot.name if snapshot else ""
    return ""


def hash_folder(folder: Path) -> str:
    """Return ``sha256:`` and a hash of a checkpoint's settings, and of names, sizes and parts of its weight files.

    Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in _setting_files(folder):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    for path in weight_files(folder):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        last = max(0, size - SAMPLE_BYTES)
        with path.open("rb") as file:
            for start in sorted({number * last // (SAMPLES - 1) for number in range(SAMPLES)}):
                file.seek(start)
                digest.update(file.read(SAMPLE_BYTES))
    return f"sha256:{digest.hexdigest()}"


def hash_tensors(folder: Path) -> str:
    """Return a hash of the header of each safetensors file and of parts of each tensor, or of whole files of other formats.

    Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in weight_files(folder):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = file.read(size) if path.suffix == ".safetensors" and size < MAX_HEADER_BYTES else b""
            spans = _tensor_spans(header, path.stat().st_size)
            digest.update(header)
            for start, end in spans:
                for offset in sorted({start, (start + end) // 2, max(start, end - TENSOR_BYTES)}):
                    file.seek(8 + len(header) + offset)
                    digest.update(file.read(min(TENSOR_BYTES, end - offset)))
            if not spans:
                file.seek(0)
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()[:16]


def _tensor_spans(header: bytes, size: int) -> list[tuple[int, int]]:
    """Return where each tensor in a safetensors file of this size begins and ends behind the header; empty for other content."""
    try:
        entries = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        spans = [entry["data_offsets"] for entry in entries]
        return sorted((int(start), int(end)) for start, end in spans if 0 <= start < end <= size)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return []


def _identify_folder(folder: Path) -> str:
    return f"{hash_folder(folder)}.{hash_tensors(folder)}"


def weight_files(folder: Path) -> list[Path]:
    """Return the files in safetensors, or those in other formats if there are none."""
    files = sorted(path for path in folder.iterdir() if path.suffix in WEIGHT_SUFFIXES and path.is_file())
    return [path for path in files if path.suffix == ".safetensors"] or files


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
