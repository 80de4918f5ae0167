"""The trained model, loaded as in a sweep, and its adapters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from actors.engine.hf.backend import ModelAndProcessor
from proactive_learn.settings import Lora, Train, TrainError
from sweeps.package_models import resolve_source
from sweeps.spec import ModelSpec

if TYPE_CHECKING:
    from peft import LoraConfig


class Student:
    """The network and its processor; all random numbers of the training follow from the seed."""

    def __init__(self, train: Train) -> None:
        self.model = ModelAndProcessor(transformers_spec(train.model))
        self.network = self.model.network
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(train.seed)  # for the initial weights of adapters

    def text(self, tokens: Sequence[int]) -> str:
        """Decode a reply without its end token."""
        without_stop = tokens[:-1] if tokens and tokens[-1] in self.model.stops else tokens
        return self.model.decode(list(without_stop))


def transformers_spec(model: ModelSpec) -> ModelSpec:
    """Return the model's entry for transformers, without options of vLLM."""
    resolved = resolve_source(model)
    return resolved if resolved.backend == "transformers" else resolved.model_copy(update={"options": {}})


def lora_config(network: Any, lora: Lora, name: str) -> LoraConfig:
    """Return adapters on the language model's layers in ``lora.targets``; raise TrainError for a missing layer."""
    from peft import LoraConfig

    decoder = network.get_decoder()
    prefix = next(module_name for module_name, module in network.named_modules() if module is decoder)
    linear = {
        module_name.rpartition(".")[2]
        for module_name, module in network.named_modules()
        if module_name.startswith(f"{prefix}.") and isinstance(module, torch.nn.Linear)
    }
    if missing := [target for target in lora.targets if target not in linear]:
        raise TrainError(
            f"the language model of {name} has no layer {' or '.join(missing)}; name some of {', '.join(sorted(linear))} as "
            "train.lora.targets"
        )
    targets = rf"{re.escape(prefix)}\..*\.({'|'.join(map(re.escape, lora.targets))})"
    return LoraConfig(r=lora.r, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=targets)
