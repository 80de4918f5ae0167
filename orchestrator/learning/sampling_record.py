"""Log-probabilities of sampled replies, taken from the very passes that sample them: TRL keeps none of its own.

They are those of temperature 1, whatever the sampling's, as the native engine stores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class SamplingRecord:
    """Listens to the network while it generates; one pass at a time is remembered, never a whole reply's scores."""

    def __init__(self) -> None:
        self.told: list[Tensor] = []
        """One entry a pass but the last: [rows], the log-probability of the token that came of it."""
        self.scores: Tensor | None = None
        """[rows, vocabulary] of the last pass."""

    def __call__(self, network: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        """After each pass: its input ends with the tokens that the pass before gave."""
        if self.scores is not None:
            self.told.append(logprobs(self.scores, kwargs["input_ids"][:, -1]))
        self.scores = output.logits[:, -1].detach()

    def sums(self, replies: Sequence[Sequence[int]]) -> list[float]:
        """The log-probability of each reply, its end token included; call it once, when all are generated."""
        if self.scores is None:
            return []
        longest = len(self.told) + 1
        ends = [reply[-1] if len(reply) == longest else 0 for reply in replies]
        token_logprobs = torch.stack([*self.told, logprobs(self.scores, torch.tensor(ends))], 1)
        return [float(row[: len(reply)].sum()) for row, reply in zip(token_logprobs, replies, strict=True)]


def logprobs(scores: Tensor, tokens: Tensor) -> Tensor:
    """[rows]: of each row's token, by scores of [rows, vocabulary]."""
    return scores.float().log_softmax(-1).gather(-1, tokens[:, None].to(scores.device))[:, 0].cpu()


@contextmanager
def recorded(network: Any) -> Iterator[SamplingRecord]:
    """Record what the network samples inside the block."""
    record = SamplingRecord()
    hook = network.register_forward_hook(record, with_kwargs=True)
    try:
        yield record
    finally:
        hook.remove()
