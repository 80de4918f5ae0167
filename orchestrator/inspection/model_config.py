"""Facts of a model's configuration: class, context length, cache and weight sizes; nothing is downloaded or loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.json_text import parse_json
from orchestrator.datasets.hub import cached_folder
from sweeps.spec import ModelSpec

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4}
MAX_CONFIG_BYTES = 1 << 22
Config = Mapping[str, Any]


def config_on_disk(model: ModelSpec) -> Config | None:
    """Return the model's ``config.json`` if its files are on this disk."""
    folder = Path(model.source)
    copy = folder if folder.is_dir() else cached_folder(model.source, model.revision)
    return read_config(copy) if copy else None


def read_config(folder: Path) -> dict[str, Any] | None:
    """Return the ``config.json`` of a folder; None if it is missing or damaged."""
    try:
        return parse_config((folder / "config.json").read_bytes()[:MAX_CONFIG_BYTES])
    except OSError:
        return None


def parse_config(content: bytes) -> dict[str, Any] | None:
    """Return a JSON object; None for any other content."""
    try:
        config = parse_json(content)
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def class_name(config: Config) -> str:
    """Return the first architecture of a configuration; empty if it has none."""
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""


def context_length(model: ModelSpec, config: Config) -> int:
    """Return the tokens of prompt and reply together: ``max_model_len`` of the entry, else of the configuration; 0 if unknown."""
    max_length = model.options.get("max_model_len")
    return max_length if isinstance(max_length, int) else _positive(_text_config(config), "max_position_embeddings")


def attention_heads(config: Config) -> int:
    """Return the number of attention heads of the language model; 0 if unknown."""
    return _positive(_text_config(config), "num_attention_heads")


def cache_bytes_per_token(config: Config) -> int:
    """Return the cache size of a token, keys and values in 16 bits; 0 if unknown."""
    text = _text_config(config)
    layers, heads, width = (_positive(text, key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    if not (layers and heads and width):
        return 0
    shared = _positive(text, "num_key_value_heads") or heads
    return 2 * 2 * layers * shared * (_positive(text, "head_dim") or width // heads)


def bytes_in_memory(file_bytes: int, model: ModelSpec, config: Config) -> float:
    """Return the size of weights in the number format of the engine."""
    text = _text_config(config)
    stored = str(config.get("dtype") or config.get("torch_dtype") or text.get("torch_dtype") or "bfloat16")
    used = stored if model.dtype == "auto" else model.dtype
    return file_bytes * DTYPE_BYTES.get(used, 2) / DTYPE_BYTES.get(stored, 2)


def _text_config(config: Config) -> Config:
    """Return the language model's part of a configuration."""
    for name in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(name), dict):
            return {**config, **config[name]}
    return config


def _positive(table: Config, key: str) -> int:
    value = table.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
