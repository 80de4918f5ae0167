"""The model that learns: samples replies and tells their log-probabilities; a prompt is computed once for all replies to it.

It reads questions through ``actors.engine.hf.backend``, so it gets the tokens and pixels that a sweep gives it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from actors.engine.batching import Job
from actors.text.printable import one_line
from orchestrator.learning.settings import Train, TrainError
from orchestrator.learning.states import SampledReply
from orchestrator.learning.student import Student, adapters


class SamplerDied(TrainError):
    """The program that samples replies is gone; no weight has changed since the last step."""


class Prefilled(NamedTuple):
    """Questions after one pass through the model, padded on the left."""

    logits: Tensor
    """[questions, vocabulary], of the first token of a reply."""
    cache: Any
    mask: Tensor
    """[questions, length]"""
    first_position: Tensor
    """[questions], the position of a reply's first token."""


class Policy(Student):
    """A student that samples and is trained by hand."""

    def __init__(self, train: Train) -> None:
        super().__init__(train)
        network = self.network
        if any(hasattr(module, "get_rope_index") for module in network.modules()):
            raise TrainError(
                f"{train.model.name} numbers positions in three dimensions, which shared prompts are not written for; set "
                'train.engine = "trl", or name a model without such positions as train.model (LLaVA, Idefics3, SmolVLM and '
                "InternVL have none)"
            )
        self.before = deepcopy(network).eval().requires_grad_(False) if train.full and train.kl else None
        self.network = network if train.full else self._adapted()
        if train.full:
            self.network.requires_grad_(True)
        self.trained = [p for p in self.network.parameters() if p.requires_grad]
        self.device = self.mind.device
        self.stops = torch.tensor(sorted(self.mind.stops), device=self.device)

    def _adapted(self) -> Any:
        lora_config = adapters(self.network, self.train.lora, self.train.model.name)
        from peft import get_peft_model

        return get_peft_model(self.network, lora_config)

    def prefill(self, network: Any, jobs: Sequence[Job], grad: bool) -> Prefilled:
        """One pass over the questions."""
        inputs = self._inputs(jobs).to(self.device)
        floats = {k: v.to(network.dtype) for k, v in inputs.items() if torch.is_floating_point(v)}
        mask = inputs["attention_mask"]
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.set_grad_enabled(grad):
            out = network(**{**inputs, **floats}, position_ids=positions, use_cache=True, logits_to_keep=1)
        return Prefilled(out.logits[:, -1], out.past_key_values, mask, positions[:, -1] + 1)

    def _inputs(self, jobs: Sequence[Job]) -> Any:
        """Tensors of all questions; raises TrainError where the processor takes them one by one alone."""
        try:
            return self.mind.inputs(jobs)
        except ValueError as problem:
            if len(jobs) == 1:
                raise
            raise TrainError(
                f"the processor of {self.train.model.name} refuses several questions at once ({one_line(str(problem))}); set "
                "train.at_once = 1"
            ) from None

    @torch.no_grad()
    def sampled(
        self, jobs: Sequence[Job], counts: Sequence[int], temperature: float, seed: int
    ) -> list[list[SampledReply]]:
        """``counts[k]`` replies to question k; temperature 0 takes the likeliest token. The seed alone decides."""
        self.network.eval()
        chance = torch.Generator(self.device).manual_seed(seed)
        logits, cache, mask, position = self.prefill(self.network, jobs, False)
        index = torch.tensor([k for k, n in enumerate(counts) for _ in range(n)], device=self.device)
        cache.batch_select_indices(index)
        logits, mask, position = logits[index], mask[index], position[index]
        ended = torch.zeros(len(index), dtype=torch.bool, device=self.device)
        tokens, logprobs = [], torch.zeros(len(index), device=self.device)
        while True:
            token = chosen(logits, temperature, chance)
            logprobs += torch.where(ended, 0.0, logits.float().log_softmax(-1).gather(-1, token[:, None])[:, 0])
            tokens.append(torch.where(ended, self.pad, token))
            ended = ended | torch.isin(token, self.stops)
            if bool(ended.all()) or len(tokens) == self.train.max_tokens:
                break
            mask = torch.cat([mask, mask.new_ones(len(index), 1)], 1)
            logits = self.network(
                input_ids=tokens[-1][:, None], attention_mask=mask, position_ids=position[:, None],
                past_key_values=cache, use_cache=True,
            ).logits[:, -1]  # fmt: skip
            position = position + 1
        rows = zip(torch.stack(tokens, 1).tolist(), logprobs.tolist(), strict=True)
        replies = iter([SampledReply(self._ended(row), logprob) for row, logprob in rows])
        return [[next(replies) for _ in range(n)] for n in counts]

    def greedy(self, jobs: Sequence[Job]) -> list[str]:
        replies = self.sampled(jobs, [1] * len(jobs), 0.0, 0)
        return [self.text(group[0].tokens) for group in replies]

    def _ended(self, row: Sequence[int]) -> tuple[int, ...]:
        end = next((index for index, token in enumerate(row) if token in self.mind.stops), len(row) - 1)
        return tuple(row[: end + 1])

    def logprobs(
        self, network: Any, jobs: Sequence[Job], index: Sequence[int], replies: Sequence[Sequence[int]], grad: bool
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the tokens of replies, and which of them count, both [replies, longest].

        ``index[k]`` is the question of reply k; a question is computed once for all its replies.
        """
        logits, cache, mask, position = self.prefill(network, jobs, grad)
        chosen_rows = torch.tensor(index, device=self.device)
        longest = max(map(len, replies))
        ids = torch.tensor([[*reply, *[self.pad] * (longest - len(reply))] for reply in replies], device=self.device)
        counted = torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in replies], device=self.device)
        with torch.set_grad_enabled(grad):
            cache.batch_select_indices(chosen_rows)
            scores = logits[chosen_rows][:, None]
            if longest > 1:
                attention = torch.cat([mask[chosen_rows], counted[:, :-1]], 1)
                positions = position[chosen_rows][:, None] + torch.arange(longest - 1, device=self.device)
                rest = network(
                    input_ids=ids[:, :-1],
                    attention_mask=attention,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                )
                scores = torch.cat([scores, rest.logits], 1)
            token_logprobs = scores.float().log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        return token_logprobs, counted

    def close(self) -> None:
        """Give back what the policy holds beside its weights: here nothing."""

    @contextlib.contextmanager
    def untrained(self) -> Iterator[Any]:
        """The network as it was before training."""
        if self.before is not None:
            yield self.before
            return
        with self.network.disable_adapter():
            yield self.network


def chosen(logits: Tensor, temperature: float, chance: torch.Generator) -> Tensor:
    """One token a row."""
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial((logits.float() / temperature).softmax(-1), 1, generator=chance)[:, 0]
