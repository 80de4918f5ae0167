"""The trained model of either engine, loaded as in a sweep."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from actors.engine.backend import ReplyScore
from actors.engine.batching import Job
from actors.engine.hf.backend import ModelAndProcessor, PreparedBatch
from orchestrator.learning.settings import Lora, Train, TrainError
from sweeps.package_models import resolve_source
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec

if TYPE_CHECKING:
    from peft import LoraConfig


class Student:
    """The network and its processor; all random numbers of the training follow from the seed."""

    def __init__(self, train: Train) -> None:
        self.train = train
        self.model = ModelAndProcessor(transformers_spec(train.model))
        self.network = self.model.network
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(train.seed)  # for the initial weights of adapters
        tokenizer = self.model.tokenizer
        self.end_token = tokenizer.eos_token_id if tokenizer.eos_token_id in self.model.stops else min(self.model.stops)
        self.pad_token: int = tokenizer.pad_token_id

    # -- text ---------------------------------------------------------------------------------------------------------
    def text(self, tokens: Sequence[int]) -> str:
        """Decode a reply without its end token."""
        without_stop = tokens[:-1] if tokens and tokens[-1] in self.model.stops else tokens
        return self.model.decode(list(without_stop))

    def tokens(self, text: str) -> tuple[int, ...]:
        """Encode a reply, end token included."""
        return (*self.model.decoder(text, add_special_tokens=False)["input_ids"], self.end_token)

    def greedy(self, jobs: Sequence[Job]) -> list[str]:
        """Return the greedy reply to each question, decoded as in a sweep."""
        sampling = Sampling(max_tokens=self.train.max_tokens)
        greedy_jobs = [Job(job.request._replace(sampling=sampling), job.pictures) for job in jobs]
        return [reply.text for reply in self.model.replies(PreparedBatch(greedy_jobs, self.model.inputs(greedy_jobs)))]

    def scores(self, job: Job, replies: Sequence[str]) -> Sequence[ReplyScore]:
        """Return the log-probability of each reply to a question, its end token included."""
        scored_job = Job(job.request, job.pictures, tuple(replies))
        return self.model.scored(PreparedBatch([scored_job], self.model.inputs([scored_job])))[0].scores

    # -- weights ------------------------------------------------------------------------------------------------------
    def weights(self) -> dict[str, Tensor]:
        """Return the trained parameters by name."""
        return {name: p.detach().cpu() for name, p in self.network.named_parameters() if p.requires_grad}

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Restore parameters from ``weights``."""
        parameters = dict(self.network.named_parameters())
        with torch.no_grad():
            for name, value in weights.items():
                parameters[name].copy_(value)

    def save(self, folder: Path) -> None:
        """Save the adapter, or the full model with its processor, for transformers and vLLM."""
        self.network.save_pretrained(folder)
        if self.train.full:
            self.model.processor.save_pretrained(folder)


def transformers_spec(model: ModelSpec) -> ModelSpec:
    """Return the model's entry for transformers, without options of vLLM."""
    resolved = resolve_source(model)
    return resolved if resolved.backend == "transformers" else resolved.model_copy(update={"options": {}})


def lora_config(network: Any, lora: Lora, name: str) -> LoraConfig:
    """Return adapters on the language model's layers in ``lora.targets``; raise TrainError for a missing layer."""
    try:
        from peft import LoraConfig
    except ModuleNotFoundError:
        raise TrainError("adapters need the package peft: pip install 'proactive-sweep[train]'") from None
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
