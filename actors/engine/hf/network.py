"""Builds the network of a checkpoint for the transformers backend: with weights, or without them to prepare inputs only."""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

from actors.engine.decoding import end_tokens
from sweeps.spec import ModelSpec


def load_network(model: ModelSpec, device: str, source: Mapping[str, Any]) -> Any:
    """Return the network of a model; with the option ``device_map = "meta"``, no weights are read or needed on this disk."""
    config = AutoConfig.from_pretrained(model.source, **source)
    family: Any = AutoModelForImageTextToText
    if type(config) not in family._model_mapping and family.__name__ not in getattr(config, "auto_map", {}):
        family = AutoModelForCausalLM  # neither transformers nor its own code has a class that reads pictures
    options = {name: value for name, value in model.options.items() if name != "batch"}
    if options.get("device_map") == "meta":
        return _without_weights(model, family, config, source)
    if model.gpus > 1 and device == "cuda":
        options.setdefault("device_map", "auto")
    network = family.from_pretrained(model.source, dtype=model.dtype, **source, **options)
    if model.lora:
        network.load_adapter(adapter_folder(model), adapter_name="sweep")
        network.set_adapter("sweep")
    return (network if "device_map" in options else network.to(device)).eval()


def _without_weights(model: ModelSpec, family: Any, config: Any, source: Mapping[str, Any]) -> Any:
    """Return a network of the same classes, type and generation configuration whose tensors have no values."""
    dtype = config.dtype if model.dtype == "auto" else getattr(torch, model.dtype)
    with torch.device("meta"):
        network = family.from_config(config, dtype=dtype, trust_remote_code=model.trust_remote_code)
    with contextlib.suppress(OSError):  # without this file, the network derives it from its own configuration
        network.generation_config = GenerationConfig.from_pretrained(model.source, revision=source["revision"])
    return network.eval()


def all_end_tokens(network: Any, tokenizer: Any) -> frozenset[int]:
    """Return every token that ends a reply, from all configurations that name one."""
    holders = (network.generation_config, network.config.get_text_config(), tokenizer)
    return frozenset(end_tokens(*(getattr(holder, "eos_token_id", None) for holder in holders)))


def forget_defaults(network: Any, stops: frozenset[int], pad: int) -> None:
    """Replace the checkpoint's generation defaults with greedy ones, also those of an inner language model."""
    for module in network.modules():
        if (own := getattr(module, "generation_config", None)) is not None:
            places = (own, module.config, module.config.get_text_config())
            starts = (getattr(place, "decoder_start_token_id", None) for place in places)
            module.generation_config = GenerationConfig(
                do_sample=False, num_beams=1, repetition_penalty=1.0, eos_token_id=sorted(stops), pad_token_id=pad,
                # an encoder-decoder cannot answer without it; Florence-2 has it in the language model's configuration
                decoder_start_token_id=next((start for start in starts if start is not None), None),
                bos_token_id=own.bos_token_id,
            )  # fmt: skip


def pad_token(tokenizer: Any) -> int:
    """Return the padding token; a tokenizer without one is set to pad with the end token, which the mask hides."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return int(tokenizer.pad_token_id)


def adapter_folder(model: ModelSpec) -> str:
    """Return the folder of the model's LoRA: a path, or a subfolder of the model, downloaded if absent."""
    if os.path.isdir(model.lora):
        return model.lora
    if os.path.isdir(model.source):
        return os.path.join(model.source, model.lora)
    from huggingface_hub import snapshot_download

    snapshot = snapshot_download(model.source, revision=model.revision or None, allow_patterns=f"{model.lora}/*")
    return os.path.join(snapshot, model.lora)


def is_out_of_memory(error: Exception) -> bool:
    """Return True if a device, or the machine, ran out of memory."""
    has_no_room = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    return has_no_room or isinstance(error, torch.OutOfMemoryError | MemoryError)
