"""The probabilities that a model writes given replies: the prompt is computed once, the replies continue its cache.

A reply's probability is that of its tokens followed by any end token. Prompts are not batched, so that each model computes the
positions of its tokens itself. A model whose cache cannot be copied for several replies (InstructBLIP, linear attention) computes
the prompt again with each reply.
"""

import inspect
from collections.abc import Collection, Sequence
from copy import deepcopy
from time import perf_counter
from typing import Any

import torch

from actors.engine.backend import Reply
from proactive_operating.reply_scores import ReplyScore, ScoredReplies

ROWS = 64
"""Replies that are computed at once; each has a copy of the prompt's cache."""
PER_TOKEN = ("mm_token_type_ids", "token_type_ids")
"""Input tensors with a number per token; for the tokens of a reply it is 0, which means text."""


def score_job(model: Any, batch: Any, replies: Sequence[str], thought: str) -> ScoredReplies:
    """Return the scores of replies to the batch's only job; ``model`` is a ``ModelAndProcessor``."""
    (job,), inputs = batch.jobs, model.on_device(batch.inputs)
    choices = model.decoding(job.request)
    stops = model.stops if choices.stops is None else frozenset(choices.stops)
    before, *ids = (model.decoder(text, add_special_tokens=False)["input_ids"] for text in (thought, *replies))
    scores = score_replies(model.network, extend_inputs(inputs, before) if before else inputs, ids, stops)
    prompt, written, seconds = inputs["input_ids"].shape[1], sum(map(len, ids)), perf_counter() - job.created
    return ScoredReplies(tuple(scores), Reply("", prompt, written, "stop", seconds, cached_tokens=0))


@torch.inference_mode()
def score_replies(
    network: Any, inputs: Any, replies: Sequence[Sequence[int]], stops: Collection[int]
) -> list[ReplyScore]:
    """Return the score of each reply (token ids without an end) to one prompt (``inputs`` of one row, on the device)."""
    arguments = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(network.forward).parameters else {}
    inputs = {name: tensor for name, tensor in inputs.items() if name != "labels"}  # PaliGemma's processor adds them
    prefix = network(**inputs, use_cache=True, **arguments)
    first = prefix.logits[:, -1].float().log_softmax(-1)
    writable = sorted(stop for stop in stops if stop < first.shape[-1])
    paths, ends = _drop_prefixes(replies), torch.tensor(writable, device=first.device)
    cache = getattr(prefix, "past_key_values", None)
    can_copy = cache is not None and all(hasattr(layer, "batch_repeat_interleave") for layer in cache.layers)
    scores: dict[tuple[int, ...], ReplyScore] = {}
    for start in range(0, len(paths), ROWS):
        rows = paths[start : start + ROWS]
        later = _continue_cache(network, inputs, cache, rows) if can_copy else _pass_whole(network, inputs, rows)
        for row, path in enumerate(rows):
            steps = torch.cat([first, later[row][: len(path)]])
            scores |= {
                reply: _score(steps[: len(reply) + 1], reply, ends)
                for reply in map(tuple, replies)
                if path[: len(reply)] == reply
            }
    return [scores[tuple(reply)] for reply in replies]


def _drop_prefixes(replies: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the replies without those that begin a longer one, whose row also has their probabilities."""
    distinct = sorted({tuple(reply) for reply in replies})
    return [reply for reply, after in zip(distinct, [*distinct[1:], ()], strict=True) if after[: len(reply)] != reply]


def _continue_cache(network: Any, inputs: Any, cache: Any, rows: Sequence[Sequence[int]]) -> Sequence[torch.Tensor]:
    """Return the log-probabilities after each token of each reply, (tokens, vocabulary) per reply.

    If the prompt has no padding, no mask is passed, because Qwen's models would compute positions for the whole mask instead of
    the new tokens. Shorter replies are filled up with their last token; the probabilities after these tokens are not used.
    """
    longest, mask = max(map(len, rows)), inputs["attention_mask"]
    ids = torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in rows], device=mask.device)
    copied = deepcopy(cache)
    copied.batch_repeat_interleave(len(rows))
    masks = {} if mask.all() else {"attention_mask": torch.cat([mask.expand(len(rows), -1), torch.ones_like(ids)], 1)}
    output = network(input_ids=ids, past_key_values=copied, use_cache=True, **masks)
    logits: torch.Tensor = output.logits
    return list(logits.float().log_softmax(-1))


def _pass_whole(network: Any, inputs: Any, rows: Sequence[Sequence[int]]) -> Sequence[torch.Tensor]:
    """Return the same as ``_continue_cache``, from one pass over prompt and reply for each reply."""
    return [
        network(**extend_inputs(inputs, row)).logits[0, -len(row) :].float().log_softmax(-1) if row else torch.empty(0)
        for row in rows
    ]


def extend_inputs(inputs: Any, reply: Sequence[int]) -> dict[str, Any]:
    """Return the input tensors of one row with a reply appended to the prompt."""
    ids = torch.tensor([list(reply)], device=inputs["input_ids"].device)
    added = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    added |= {name: torch.zeros_like(ids) for name in PER_TOKEN if name in inputs}
    return {
        **inputs,
        **{name: torch.cat([inputs[name], values.to(inputs[name].dtype)], 1) for name, values in added.items()},
    }


def _score(steps: torch.Tensor, reply: Sequence[int], ends: torch.Tensor) -> ReplyScore:
    """Return the score of a reply; ``steps`` are the log-probabilities before each of its tokens and at its end."""
    written = sum((steps[index, token].double().item() for index, token in enumerate(reply)), 0.0)
    ended = steps[-1, ends].double().logsumexp(0).item()
    best = steps.argmax(-1).tolist()
    greedy = best[:-1] == list(reply) and best[-1] in ends.tolist()
    return ReplyScore(written + ended, greedy)
