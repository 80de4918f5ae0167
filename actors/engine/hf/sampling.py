"""Logits processors that decode each row of a batch as if it were alone."""

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.generation import logits_process

from actors.engine.decoding import Decoding


class SeededNoise(LogitsProcessor):
    """Gumbel noise from each row's own generator: the largest score is then an exact sample of that row.

    Greedy decoding of the batch thus samples each row by its request's seed alone.
    """

    def __init__(self, seeds: Sequence[int], device: str) -> None:
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores.float() - noise.clamp_min_(1e-30).log_()


class RepetitionPenalty(LogitsProcessor):
    """The repetition penalty over prompt and reply (Keskar et al. 2019), without a row's padding, for one batch."""

    def __init__(self, penalty: float, mask: torch.Tensor) -> None:
        self.penalty, self.mask, self.starts = penalty, mask, list[int]()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        if not self.starts:  # the first step, at which the ids of some models hold no prompt
            has_prompt = input_ids.shape[1] >= self.mask.shape[1]
            self.starts = ((self.mask == 0).sum(dim=1) * has_prompt).tolist()
        for row, ids, start in zip(scores, input_ids, self.starts, strict=True):
            used = ids[start:].unique()
            row[used] = torch.where(row[used] < 0, row[used] * self.penalty, row[used] / self.penalty)
        return scores


def logits_processors(decoding: Decoding, seeds: Sequence[int], device: str, mask: torch.Tensor) -> LogitsProcessorList:
    """Return the processors of a batch; greedy decoding has only penalty and bans. ``mask`` is 0 where rows are padded."""
    steps = LogitsProcessorList()
    if decoding.repetition_penalty != 1.0:
        steps.append(RepetitionPenalty(decoding.repetition_penalty, mask))
    if decoding.banned:
        steps.append(logits_process.SuppressTokensLogitsProcessor(list(decoding.banned), device=device))
    if decoding.temperature > 0:
        steps.append(logits_process.TemperatureLogitsWarper(decoding.temperature))
        if decoding.top_k > 0:
            steps.append(logits_process.TopKLogitsWarper(decoding.top_k))
        if decoding.top_p < 1:
            steps.append(logits_process.TopPLogitsWarper(decoding.top_p))
        steps.append(SeededNoise(seeds, device))
    return steps
