"""Loads a network with transformers, and reads or replaces the defaults of its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

from actors.engine.hf.adapter import adapter_folder
from sweeps.spec import ModelSpec


def load_network(model: ModelSpec, device: str, source: Mapping[str, Any]) -> Any:
    """Return the network of a model entry on its device, with its adapter. Raises errors of transformers."""
    config = AutoConfig.from_pretrained(model.source, **source)
    pictured = type(config) in AutoModelForImageTextToText._model_mapping
    family = AutoModelForImageTextToText if pictured else AutoModelForCausalLM
    options = {name: value for name, value in model.options.items() if name != "batch"}
    if model.gpus > 1 and device == "cuda":
        options.setdefault("device_map", "auto")
    network = family.from_pretrained(model.source, dtype=model.dtype, **source, **options)
    if model.lora and options.get("device_map") != "meta":
        network.load_adapter(adapter_folder(model), adapter_name="sweep")
        network.set_adapter("sweep")
    return (network if "device_map" in options else network.to(device)).eval()


def end_tokens(network: Any, tokenizer: Any) -> frozenset[int]:
    """Return every token that ends a reply, from all configurations that name one."""
    holders = (network.generation_config, network.config.get_text_config(), tokenizer)
    ids = [getattr(holder, "eos_token_id", None) for holder in holders]
    return frozenset(
        t for each in ids if each is not None for t in (each if isinstance(each, list | tuple) else [each])
    )


def forget_defaults(network: Any, stops: frozenset[int], pad: int) -> None:
    """Replace the checkpoint's sampling defaults, also those of an inner language model."""
    for module in network.modules():
        if getattr(module, "generation_config", None) is not None:
            module.generation_config = GenerationConfig(
                do_sample=False, num_beams=1, repetition_penalty=1.0, eos_token_id=sorted(stops), pad_token_id=pad
            )


def pad_token(tokenizer: Any) -> int:
    """Return the padding token; models without one pad with the end token, which the mask hides."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return int(tokenizer.pad_token_id)
