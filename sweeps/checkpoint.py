"""What a checkpoint's own files say about the input that it accepts, read without an engine, a download or an import of torch.

The one reader of ``config.json``, chat template and tokenizer configuration, for players and judges. The files are those of a
folder, or of a snapshot in the Hub's cache.
"""

import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from envs import regular
from envs.regular import parse_fields
from sweeps.model import FACTS, Limit, ModelSpec

MAX_FILE_BYTES = 1 << 24
"""Most bytes of a file that is read here; tokenizers have at most a few million."""
Config = Mapping[str, Any]
COMMIT = re.compile(r"[0-9a-f]{40}")
"""A revision that never moves; branches, tags and ``refs/pr/...`` do."""
MAX_REFERENCE_BYTES = 100
"""Most bytes of a reference in the Hub's cache, which holds a commit."""
CLASSES, KEYS, FILES = (FACTS[name] for name in ("classes", "keys", "files"))


@dataclass(frozen=True)
class Checkpoint:
    """The facts of one checkpoint; damaged or missing files count as empty."""

    config: Config
    folder: Path | None = None
    """The folder of its other files; None if only the configuration is known."""
    weight_bytes: int = 0
    """Bytes of its weight files; 0 if unknown."""
    revision: str = ""
    """The commit that the Hub has now; empty for files on this disk."""
    license: str = "unknown"
    """The cell of ``models check``."""

    @property
    def architecture(self) -> str:
        """Return the first class name of the configuration; empty if it has none."""
        names = self.config.get("architectures")
        return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""

    @property
    def text_config(self) -> Config:
        """Return the language model's part of the configuration."""
        part: Config = next((self.config[name] for name in KEYS["text"] if isinstance(self.config.get(name), dict)), {})
        return {**self.config, **part}

    @property
    def context(self) -> int:
        """Return the most tokens of prompt and reply together; 0 if unknown."""
        length = self.text_config.get("max_position_embeddings")
        return length if type(length) is int and length > 0 else 0

    @property
    def image_tokens(self) -> frozenset[int]:
        """Return the ids of the token that stands for a part of a picture; empty if unknown."""
        numbers = (self.config.get("image_token_id"), self.config.get("image_token_index"))
        return frozenset(number for number in numbers if type(number) is int)

    @property
    def reads_text_only(self) -> bool:
        """Return True if the class is a language model, not the checkpoint's own code, and no file mentions pictures."""
        known = self.architecture.endswith(tuple(CLASSES["language_models"])) and "auto_map" not in self.config
        return known and not any(name in self.config for name in KEYS["vision"]) and not self._has(*FILES["processor"])

    def find_fault(self, is_complete: bool) -> str:
        """Return which of its files no engine can read; empty if none.

        ``is_complete`` is False if an engine downloads what is missing.
        """
        settings = filter(self._has, FILES["settings"])
        if damaged := [name for name in settings if parse_fields(self._read(name)) is None]:
            return f"{self.folder}/{damaged[0]} is no readable JSON object"
        has_tokenizer = self._has(*FILES["tokenizer"]) or "auto_map" in self._table("tokenizer_config.json")
        fault = f"folder {self.folder} has no tokenizer.json or other vocabulary"
        return "" if has_tokenizer or not is_complete else fault

    @property
    def takes_films(self) -> bool:
        """Return True if its processor also takes videos."""
        return self._has("video_preprocessor_config.json") or "video_processor" in self._table("processor_config.json")

    @cached_property
    def template(self) -> str | None:
        """Return the chat template, or all of them joined; empty if the tokenizer has none, None if that is unknown."""
        if self.folder is None or not self._has("tokenizer_config.json") or self._has("tekken.json"):
            return None
        texts = [self._read("chat_template.jinja").decode("utf-8", "replace")]
        for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
            texts += _texts(self._table(name).get("chat_template"))
        return "\n".join(filter(None, texts))

    @cached_property
    def generation(self) -> Config:
        """Return its ``generation_config.json``; empty without one."""
        return self._table("generation_config.json")

    def limits(self, model: ModelSpec) -> tuple[Limit, ...]:
        """Return what the checkpoint cannot take on the model's engine."""
        joined = model.backend == "transformers" or self.config.get("model_type") in CLASSES["joined_by_vllm"]
        applies_by_limit: dict[Limit, bool] = {
            "no pictures": self.reads_text_only,
            "no chat template": joined and self.template == "",
            "no functions": model.calls_natively and self.template is not None and "tools" not in self.template,
        }
        return tuple(limit for limit, applies in applies_by_limit.items() if applies)

    def _has(self, *names: str) -> bool:
        return self.folder is not None and any((self.folder / name).is_file() for name in names)

    def _read(self, name: str) -> bytes:
        try:
            return b"" if self.folder is None else regular.read_bytes(self.folder / name, MAX_FILE_BYTES)
        except OSError:
            return b""

    def _table(self, name: str) -> Config:
        return parse_fields(self._read(name)) or {}


def with_limits(model: ModelSpec) -> ModelSpec:
    """Return the entry with the limits of its checkpoint, unless it states some or the checkpoint is not on this disk."""
    if model.limits or (checkpoint := read_checkpoint(model)) is None:
        return model
    return model.model_copy(update={"limits": checkpoint.limits(model)})


def read_checkpoint(model: ModelSpec) -> Checkpoint | None:
    """Return the facts of a model's checkpoint; None if its files are not on this disk, or if there is a ``source_fault``."""
    try:
        return _read_checkpoint(model)
    except OSError:
        return None


def source_fault(model: ModelSpec) -> str:
    """Return that a model's folder is missing, or which file there or in the Hub's cache cannot be read; empty if neither."""
    is_path, is_own = model.source.startswith((".", "/", "~")), os.path.isdir(model.source)
    if model.is_local and is_path and not is_own:
        return f"folder {model.source} does not exist"
    try:
        _read_checkpoint(model)
    except OSError as problem:
        path = Path(str(problem.filename))
        remedy = "" if is_own else f"; remove {cached_repository(model)}, so that the model is fetched again"
        return f"folder {path.parent} has no readable {path.name} ({problem.strerror}){remedy}"
    return ""


def _read_checkpoint(model: ModelSpec) -> Checkpoint | None:
    if (folder := _find_folder(model)) is None:
        return None
    path = folder / "config.json"
    if (config := parse_fields(regular.read_bytes(path, MAX_FILE_BYTES))) is None:
        raise OSError(errno.EINVAL, "it holds no JSON object", str(path))
    sizes = ((path.name, path.stat().st_size) for path in folder.iterdir() if path.exists())
    return Checkpoint(config, folder, sum_weights(sizes))


def sum_weights(sizes: Iterable[tuple[str, int]]) -> int:
    """Return the bytes of the weight files in the folder itself; copies in other formats do not count."""
    files = [(name, size) for name, size in sizes if "/" not in name]
    by_format = (sum(size for name, size in files if name.endswith(suffix)) for suffix in FILES["weights"])
    return next(filter(None, by_format), 0)


def checkpoint_folder(model: ModelSpec) -> Path | None:
    """Return the folder of a model's files: its source, or its snapshot in the Hub's cache; None without either."""
    try:
        return _find_folder(model)
    except OSError:
        return None


def _find_folder(model: ModelSpec) -> Path | None:
    if not model.is_local or model.source.startswith("builtin:"):
        return None
    if Path(model.source).is_dir():
        return Path(model.source)
    folder = cached_snapshot(model)
    return folder if folder and (folder / "config.json").exists() else None


def cached_snapshot(model: ModelSpec) -> Path | None:
    """Return the folder of a model's commit in the Hub's cache; None if it has none.

    Raises OSError for a reference that is no small file with a commit: anybody may have written into a shared cache.
    """
    cache, commit = cached_repository(model), model.revision
    if not COMMIT.fullmatch(commit):
        reference = cache / "refs" / (commit or "main")
        if not reference.exists():
            return None
        commit = regular.read_bytes(reference, MAX_REFERENCE_BYTES).decode("ascii", "replace").strip()
        if not COMMIT.fullmatch(commit):
            raise OSError(errno.EINVAL, "it holds no commit of 40 hex digits", str(reference))
    folder = cache / "snapshots" / commit
    return folder if folder.is_dir() else None


def cached_repository(model: ModelSpec) -> Path:
    """Return the model's folder in the Hub's cache, which huggingface_hub finds by the same environment variables."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    cache = model.options.get("download_dir") or os.environ.get("HF_HUB_CACHE") or Path(home, "hub")
    return Path(os.path.expanduser(str(cache)), f"models--{model.source.replace('/', '--')}")


def _texts(value: Any) -> list[str]:
    """Return the templates of a key: one, or a list of named ones."""
    entries = value if isinstance(value, list) else [{"template": value}]
    texts = (entry.get("template") for entry in entries if isinstance(entry, dict))
    return [text for text in texts if isinstance(text, str)]
