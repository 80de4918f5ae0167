"""Describes a rendered prompt of vLLM: its pictures, and for certificates its hashed input and decoding parameters."""

from typing import Any, NamedTuple

from vllm import SamplingParams
from vllm.model_executor.layers.fusion.mm_input_norm import _load_norm_params

from actors.engine.backend import ModelInput
from actors.engine.hf import input_hashes

FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "max_tokens",
    "min_tokens", "stop", "stop_token_ids", "ignore_eos", "skip_special_tokens",
)  # fmt: skip
"""Fields of vLLM's parameters that shape a reply."""
SLICED = ("minicpmv4_6",)
"""Model types whose processor puts all slices in one row, which vLLM cuts into slices padded to equal length."""


class SentPictures(NamedTuple):
    pictures: int
    cached: int
    """Pictures in the engine's cache: they are neither preprocessed nor sent again."""


def count_pictures(prompt: Any) -> SentPictures:
    """Count the pictures of a rendered prompt, in which a cached picture has no pixels."""
    pictures = prompt.get("mm_kwargs", {}).get("image", ())
    return SentPictures(len(pictures), sum(picture is None for picture in pictures))


def describe_input(prompt: Any, parameters: SamplingParams, config: Any) -> ModelInput:
    """Return the description of a prompt that was rendered with empty caches; ``config`` is vLLM's ``ModelConfig``."""
    items, keys = (prompt.get(name, {}).get("image", ()) for name in ("mm_kwargs", "mm_hashes"))
    data = {key: item.get_data() for key, item in zip(keys, items, strict=True) if item is not None}
    pictures = [data[key] for key in keys]  # one that occurs twice is processed once
    names = dict.fromkeys(name for picture in pictures for name in picture)
    tensors = {name: [picture[name] for picture in pictures if name in picture] for name in names}
    if tensors and config.hf_config.model_type in SLICED:
        tensors = input_hashes.join_slices(tensors)
    ids = list(prompt["prompt_token_ids"])
    choices = {name: getattr(parameters, name) for name in FIELDS} | {"banned": sorted(parameters.logit_bias or ())}
    hashes = input_hashes.hash_tensors({input_hashes.IDS: ids, **tensors}, config.dtype)
    if raw := input_hashes.holds_raw_pixels(tensors):
        norm = _load_norm_params(config)
        hashes |= input_hashes.hash_normalization(norm.image_mean, norm.image_std, norm.rescale_factor)
    return ModelInput(tuple(ids), hashes, choices, input_hashes.dtype_name(config.dtype), raw)
