"""Log-probabilities of replies at temperature 1, from the forward passes that sample them: TRL stores none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class SamplingRecord:
    """A forward hook of a generating network; stores the scores of one pass at a time."""

    def __init__(self) -> None:
        self.logprobs: list[Tensor] = []
        """Per pass but the last: [rows], the log-probability of the sampled token."""
        self.scores: Tensor | None = None
        """[rows, vocabulary] of the last pass."""

    def __call__(self, network: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        """Record a pass; its input ends with the tokens sampled by the pass before."""
        if self.scores is not None:
            self.logprobs.append(token_logprobs(self.scores, kwargs["input_ids"][:, -1]))
        self.scores = output.logits[:, -1].detach()

    def sums(self, replies: Sequence[Sequence[int]]) -> list[float]:
        """Return the log-probability of each reply, end token included; call it once, after the generation."""
        if self.scores is None:
            return []
        longest = len(self.logprobs) + 1
        ends = [reply[-1] if len(reply) == longest else 0 for reply in replies]
        logprobs = torch.stack([*self.logprobs, token_logprobs(self.scores, torch.tensor(ends))], 1)
        return [float(row[: len(reply)].sum()) for row, reply in zip(logprobs, replies, strict=True)]


def token_logprobs(scores: Tensor, tokens: Tensor) -> Tensor:
    """Return the log-probability of each row's token, [rows], from scores of [rows, vocabulary]."""
    return scores.float().log_softmax(-1).gather(-1, tokens[:, None].to(scores.device))[:, 0].cpu()


@contextmanager
def record_sampling(network: Any) -> Iterator[SamplingRecord]:
    """Record the sampling of the network during the block."""
    record = SamplingRecord()
    hook = network.register_forward_hook(record, with_kwargs=True)
    try:
        yield record
    finally:
        hook.remove()
