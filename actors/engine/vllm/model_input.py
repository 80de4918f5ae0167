"""Describes a rendered prompt of vLLM and its decoding parameters, for certificates."""

from __future__ import annotations

from typing import Any

from vllm import SamplingParams

from actors.engine.backend import ModelInput
from actors.engine.hf.input_hashes import IDS, dtype_name, hash_tensors, holds_raw_pixels

CHOICES = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "max_tokens",
    "min_tokens", "stop", "stop_token_ids", "ignore_eos", "skip_special_tokens",
)  # fmt: skip
"""Fields of vLLM's parameters that shape a reply."""


def describe_input(prompt: Any, parameters: SamplingParams, dtype: Any) -> ModelInput:
    """Return ids, hashes and choices of a prompt that was rendered with empty caches; ``dtype`` is the network's."""
    pictures = _picture_data(prompt)
    names = dict.fromkeys(name for picture in pictures for name in picture)
    tensors = {name: [picture[name] for picture in pictures if name in picture] for name in names}
    ids = list(prompt["prompt_token_ids"])
    choices = {name: getattr(parameters, name) for name in CHOICES} | {"banned": sorted(parameters.logit_bias or ())}
    hashes, raw = hash_tensors({IDS: ids, **tensors}, dtype), holds_raw_pixels(tensors)
    return ModelInput(tuple(ids), hashes, choices, dtype_name(dtype), raw)


def _picture_data(prompt: Any) -> list[dict[str, Any]]:
    """Return the tensors of each picture; one that occurs twice is processed once."""
    items, hashes = (prompt.get(name, {}).get("image", ()) for name in ("mm_kwargs", "mm_hashes"))
    data = {key: item.get_data() for key, item in zip(hashes, items, strict=True) if item is not None}
    return [data[key] for key in hashes]
