"""Sizes that follow from a model's configuration: context length, cache and weights; nothing is downloaded or loaded."""

from sweeps.checkpoint import Checkpoint, positive
from sweeps.spec import ModelSpec

FOUR_BYTES = ("float32", "float")
"""Number formats of four bytes; all others take two."""


def context_length(model: ModelSpec, checkpoint: Checkpoint) -> int:
    """Return the tokens of prompt and reply together: ``max_model_len`` of the entry, else of the configuration; 0 if unknown."""
    max_length = model.options.get("max_model_len")
    return max_length if isinstance(max_length, int) else checkpoint.context


def cache_bytes_per_token(checkpoint: Checkpoint) -> int:
    """Return the cache size of a token, keys and values in 16 bits; 0 if unknown."""
    text = checkpoint.text_config
    layers, heads, width = (positive(text, key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    if not (layers and heads and width):
        return 0
    shared = positive(text, "num_key_value_heads") or heads
    return 2 * 2 * layers * shared * (positive(text, "head_dim") or width // heads)


def bytes_in_memory(file_bytes: int, model: ModelSpec, checkpoint: Checkpoint) -> float:
    """Return the size of the weights in the number format to which the engine converts them."""
    config = checkpoint.config
    text = checkpoint.text_config.get("torch_dtype")
    stored = str(config.get("dtype") or config.get("torch_dtype") or text or "bfloat16")
    used = stored if model.dtype == "auto" else model.dtype
    return file_bytes * _number_bytes(used) / _number_bytes(stored)


def _number_bytes(dtype: str) -> int:
    return 4 if dtype in FOUR_BYTES else 2
