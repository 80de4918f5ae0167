"""The probabilities that a model writes given replies: the prompt is computed once, the replies continue its cache.

A reply's probability is that of its tokens and of any token that ends a reply. One question at a time, so that each model finds
the positions of its tokens itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Any

import torch

from actors.engine.backend import ReplyScore

ROWS = 64
"""Replies that are computed at once; each has a copy of the prompt's cache."""


def score_replies(
    network: Any, inputs: Any, replies: Sequence[Sequence[int]], stops: Collection[int], pad: int
) -> list[ReplyScore]:
    """Return the score of each reply (token ids without an end) to one prompt (``inputs`` of one row, on the device)."""
    with torch.inference_mode():
        return _score_replies(network, inputs, replies, stops, pad)


def _score_replies(
    network: Any, inputs: Any, replies: Sequence[Sequence[int]], stops: Collection[int], pad: int
) -> list[ReplyScore]:
    arguments = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(network.forward).parameters else {}
    prefix = network(**inputs, use_cache=True, **arguments)
    first = prefix.logits[:, -1].float().log_softmax(-1)
    paths, ends = _longest(replies), torch.tensor(sorted(stops), device=first.device)
    scores: dict[tuple[int, ...], ReplyScore] = {}
    for start in range(0, len(paths), ROWS):
        rows = paths[start : start + ROWS]
        later = _continuations(network, inputs["attention_mask"], prefix.past_key_values, rows, pad)
        for row, path in enumerate(rows):
            steps = torch.cat([first, later[row, : len(path)]])
            scores |= {
                reply: _score(steps[: len(reply) + 1], reply, ends)
                for reply in map(tuple, replies)
                if path[: len(reply)] == reply
            }
    return [scores[tuple(reply)] for reply in replies]


def _longest(replies: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the replies that begin no other one: the others are read from the same row."""
    distinct = sorted({tuple(reply) for reply in replies})
    return [reply for reply, after in zip(distinct, [*distinct[1:], ()], strict=True) if after[: len(reply)] != reply]


def _continuations(network: Any, mask: Any, cache: Any, rows: Sequence[Sequence[int]], pad: int) -> torch.Tensor:
    """Return the log-probabilities after each token of each reply, (replies, tokens, vocabulary)."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], device=mask.device)
    counted = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=mask.device)
    copied = deepcopy(cache)
    copied.batch_repeat_interleave(len(rows))
    output = network(
        input_ids=ids,
        attention_mask=torch.cat([mask.expand(len(rows), -1), counted.to(mask.dtype)], 1),
        past_key_values=copied,
        use_cache=True,
    )
    logits: torch.Tensor = output.logits
    return logits.float().log_softmax(-1)


def _score(steps: torch.Tensor, reply: Sequence[int], ends: torch.Tensor) -> ReplyScore:
    """Return the score of a reply from the log-probabilities before each of its tokens and at its end."""
    written = sum((steps[index, token].double().item() for index, token in enumerate(reply)), 0.0)
    ended = steps[-1, ends].double().logsumexp(0).item()
    best = steps.argmax(-1).tolist()
    greedy = best[:-1] == list(reply) and best[-1] in ends.tolist()
    return ReplyScore(written + ended, greedy)
