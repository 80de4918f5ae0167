"""The model that learns, whichever engine trains it: loaded as a sweep loads it, with adapters or all of it to be trained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from actors.embedded import resolve_embedded
from actors.engine.batching import Job
from actors.engine.hf.backend import ModelAndProcessor, PreparedBatch
from orchestrator.learning.settings import Lora, Train, TrainError
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec

if TYPE_CHECKING:
    from peft import LoraConfig


class Student:
    """Network and processor; every random number of the training follows from the seed."""

    def __init__(self, train: Train) -> None:
        self.train = train
        self.mind = ModelAndProcessor(loadable(train.model))
        self.network = self.mind.network
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(train.seed)  # adapters begin with random numbers
        tokenizer = self.mind.tokenizer
        self.end = tokenizer.eos_token_id if tokenizer.eos_token_id in self.mind.stops else min(self.mind.stops)
        self.pad: int = tokenizer.pad_token_id

    # -- text ---------------------------------------------------------------------------------------------------------
    def text(self, tokens: Sequence[int]) -> str:
        """A reply as the game reads it: without its end token."""
        without_stop = tokens[:-1] if tokens and tokens[-1] in self.mind.stops else tokens
        text: str = self.mind.writer.decode(
            list(without_stop), skip_special_tokens=True, clean_up_tokenization_spaces=True
        )
        return text.rstrip("\ufffd")

    def tokens(self, text: str) -> tuple[int, ...]:
        """A reply as the model would have said it."""
        return (*self.mind.writer(text, add_special_tokens=False)["input_ids"], self.end)

    def greedy(self, jobs: Sequence[Job]) -> list[str]:
        """The likeliest reply to each question, as a sweep has it said."""
        sampling = Sampling(max_tokens=self.train.max_tokens)
        greedy_jobs = [Job(replace(job.request, sampling=sampling), job.pictures) for job in jobs]
        return [reply.text for reply in self.mind.replies(PreparedBatch(greedy_jobs, self.mind.inputs(greedy_jobs)))]

    # -- keeping ------------------------------------------------------------------------------------------------------
    def weights(self) -> dict[str, Tensor]:
        """Return the trained parameters by name."""
        return {name: p.detach().cpu() for name, p in self.network.named_parameters() if p.requires_grad}

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Take back what ``weights`` gave."""
        parameters = dict(self.network.named_parameters())
        with torch.no_grad():
            for name, value in weights.items():
                parameters[name].copy_(value)

    def save(self, folder: Path) -> None:
        """The adapter, or the whole model with its processor, as transformers and vLLM load it."""
        self.network.save_pretrained(folder)
        if self.train.full:
            self.mind.processor.save_pretrained(folder)


def loadable(model: ModelSpec) -> ModelSpec:
    """The entry as transformers loads it to train; what it tells vLLM's engine is none of its business."""
    resolved = resolve_embedded(model)
    return resolved if resolved.backend == "transformers" else resolved.model_copy(update={"options": {}})


def adapters(network: Any, lora: Lora, name: str) -> LoraConfig:
    """Adapters on the language model's layers of the names that ``lora`` has; raises TrainError where it has none."""
    try:
        from peft import LoraConfig
    except ModuleNotFoundError:
        raise TrainError("adapters need the package peft: pip install 'proactive-sweep[train]'") from None
    decoder = network.get_decoder()
    prefix = next(name_of_module for name_of_module, module in network.named_modules() if module is decoder)
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
