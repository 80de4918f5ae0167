"""The trained policy of the native engine: samples replies and computes their log-probabilities.

Replies to one question share one forward pass over it.

Inputs come from ``actors.engine.hf.backend``, so tokens and pixels are those of a sweep.
"""

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
from orchestrator.learning.student import Student, lora_config


class SamplerDied(TrainError):
    """The engine that samples replies died; no weight has changed since the last step."""


class Prefilled(NamedTuple):
    """The result of a forward pass over questions, which are padded on the left."""

    logits: Tensor
    """[questions, vocabulary], for the first token of a reply."""
    cache: Any
    mask: Tensor
    """[questions, length]"""
    first_position: Tensor
    """[questions], the position of a reply's first token."""


class Policy(Student):
    """A student with its own sampling and log-probabilities."""

    def __init__(self, train: Train) -> None:
        super().__init__(train)
        network = self.network
        if any(hasattr(module, "get_rope_index") for module in network.modules()):
            raise TrainError(
                f"{train.model.name} numbers positions in three dimensions, which the native engine does not support; set "
                'train.engine = "trl", or another train.model (LLaVA, Idefics3, SmolVLM and InternVL work)'
            )
        self.initial_network = deepcopy(network).eval().requires_grad_(False) if train.full and train.kl else None
        self.network = network if train.full else self._add_adapter()
        if train.full:
            self.network.requires_grad_(True)
        self.trained = [p for p in self.network.parameters() if p.requires_grad]
        self.device = self.model.device
        self.stops = torch.tensor(sorted(self.model.stops), device=self.device)

    def _add_adapter(self) -> Any:
        config = lora_config(self.network, self.train.lora, self.train.model.name)  # checks that peft is installed
        from peft import get_peft_model

        return get_peft_model(self.network, config)

    def prefill(self, network: Any, jobs: Sequence[Job], grad: bool) -> Prefilled:
        """Run one pass over the questions."""
        inputs = self._inputs(jobs).to(self.device)
        floats = {k: v.to(network.dtype) for k, v in inputs.items() if torch.is_floating_point(v)}
        mask = inputs["attention_mask"]
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.set_grad_enabled(grad):
            out = network(**{**inputs, **floats}, position_ids=positions, use_cache=True, logits_to_keep=1)
        return Prefilled(out.logits[:, -1], out.past_key_values, mask, positions[:, -1] + 1)

    def _inputs(self, jobs: Sequence[Job]) -> Any:
        """Return the tensors of all questions; raise TrainError if the processor takes one question at a time."""
        try:
            return self.model.inputs(jobs)
        except ValueError as problem:
            if len(jobs) == 1:
                raise
            raise TrainError(
                f"the processor of {self.train.model.name} refuses several questions at once ({one_line(str(problem))}); set "
                "train.at_once = 1"
            ) from None

    @torch.no_grad()
    def sample(
        self, jobs: Sequence[Job], counts: Sequence[int], temperature: float, seed: int
    ) -> list[list[SampledReply]]:
        """Sample ``counts[k]`` replies to question k by the seed; temperature 0 takes the likeliest token."""
        self.network.eval()
        generator = torch.Generator(self.device).manual_seed(seed)
        logits, cache, mask, position = self.prefill(self.network, jobs, False)
        index = torch.tensor([k for k, n in enumerate(counts) for _ in range(n)], device=self.device)
        cache.batch_select_indices(index)
        logits, mask, position = logits[index], mask[index], position[index]
        ended = torch.zeros(len(index), dtype=torch.bool, device=self.device)
        tokens, logprobs = [], torch.zeros(len(index), device=self.device)
        while True:
            token = _sample_tokens(logits, temperature, generator)
            logprobs += torch.where(ended, 0.0, logits.float().log_softmax(-1).gather(-1, token[:, None])[:, 0])
            tokens.append(torch.where(ended, self.pad_token, token))
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
        replies = iter([SampledReply(self._cut(row), logprob) for row, logprob in rows])
        return [[next(replies) for _ in range(n)] for n in counts]

    def greedy(self, jobs: Sequence[Job]) -> list[str]:
        replies = self.sample(jobs, [1] * len(jobs), 0.0, 0)
        return [self.text(group[0].tokens) for group in replies]

    def _cut(self, row: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens up to the first end token."""
        end = next((index for index, token in enumerate(row) if token in self.model.stops), len(row) - 1)
        return tuple(row[: end + 1])

    def logprobs(
        self, network: Any, jobs: Sequence[Job], index: Sequence[int], replies: Sequence[Sequence[int]], grad: bool
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of the tokens of replies, and a mask that is 0 at padding, both [replies, longest].

        ``index[k]`` is the question of reply k; a question is computed once for all its replies.
        """
        logits, cache, mask, position = self.prefill(network, jobs, grad)
        rows = torch.tensor(index, device=self.device)
        longest = max(map(len, replies))
        ids = torch.tensor(
            [[*reply, *[self.pad_token] * (longest - len(reply))] for reply in replies], device=self.device
        )
        reply_mask = torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in replies], device=self.device)
        with torch.set_grad_enabled(grad):
            cache.batch_select_indices(rows)
            scores = logits[rows][:, None]
            if longest > 1:
                attention = torch.cat([mask[rows], reply_mask[:, :-1]], 1)
                positions = position[rows][:, None] + torch.arange(longest - 1, device=self.device)
                rest = network(
                    input_ids=ids[:, :-1],
                    attention_mask=attention,
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                )
                scores = torch.cat([scores, rest.logits], 1)
            token_logprobs = scores.float().log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        return token_logprobs, reply_mask

    def close(self) -> None:
        """Release the resources of a subclass; none here."""

    @contextlib.contextmanager
    def untrained(self) -> Iterator[Any]:
        """Provide the network as it was before training."""
        if self.initial_network is not None:
            yield self.initial_network
            return
        with self.network.disable_adapter():
            yield self.network


def _sample_tokens(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Sample one token per row."""
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial((logits.float() / temperature).softmax(-1), 1, generator=generator)[:, 0]
