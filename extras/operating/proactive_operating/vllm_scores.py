"""The probabilities that a model writes given replies: one request per distinct prefix of the replies, each for one token.

Every prefix continues the prompt, so all requests but the first read the prompt from the prefix cache. vLLM returns the
log-probabilities of the named tokens, before temperature, penalties and bias (``logprobs_mode`` is ``raw_logprobs``).
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, log
from typing import Any, NamedTuple

from vllm import SamplingParams
from vllm.sampling_params import MAX_LOGPROB_TOKEN_IDS, RequestOutputKind

from actors.engine.backend import Reply, Request
from actors.engine.decoding import decoding, end_tokens
from actors.engine.vllm.backend import VLLMBackend
from proactive_operating.reply_scores import ReplyScore, ScoredReplies

Tokens = tuple[int, ...]


class NextToken(NamedTuple):
    """The probabilities of the token after a prefix."""

    logs: Mapping[int, float]
    """Log-probability of each token that was asked for."""
    best: int
    """The most probable token."""
    usage: Reply


async def score_replies(
    backend: VLLMBackend, request: Request, replies: Sequence[str], thought: str = ""
) -> ScoredReplies:
    """Return the score of each reply after a thought; raises as ``Backend.reply``."""
    stops = decoding(request.sampling, backend.checkpoint_decoding, backend.penalty, backend.faithful).stops
    tokenizer = backend.engine.renderer.get_tokenizer()
    thought_ids, *ids = (tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (thought, *replies))
    ends = all_end_tokens(backend) if stops is None else stops
    wanted = tokens_after_prefixes(ids, ends)
    first = await _next_token(backend, request, thought_ids, wanted[()])  # fills the cache for the others
    others = [prefix for prefix in wanted if prefix]
    later = await asyncio.gather(
        *(_next_token(backend, request, (*thought_ids, *prefix), wanted[prefix]) for prefix in others)
    )
    next_tokens = {(): first} | dict(zip(others, later, strict=True))
    seconds = first.usage.seconds + max((token.usage.seconds for token in later), default=0.0)
    usage = replace(first.usage, reply_tokens=sum(map(len, ids)), seconds=seconds)
    return ScoredReplies(tuple(score(next_tokens, reply, ends) for reply in ids), usage)


def tokens_after_prefixes(replies: Sequence[Tokens], stops: Collection[int]) -> dict[Tokens, list[int]]:
    """Return each prefix of a reply, the empty one too, with the tokens that continue a reply there or end it."""
    wanted: dict[Tokens, set[int]] = {(): set()}
    for reply in replies:
        for index, token in enumerate(reply):
            wanted.setdefault(reply[:index], set()).add(token)
        wanted.setdefault(reply, set()).update(stops)
    return {prefix: sorted(tokens) for prefix, tokens in wanted.items()}


def score(next_tokens: Mapping[Tokens, NextToken], reply: Tokens, stops: Collection[int]) -> ReplyScore:
    """Return the score of a reply; ``next_tokens``: prefix -> probabilities of the token after it."""
    steps = [next_tokens[reply[:index]] for index in range(len(reply) + 1)]
    written = sum((step.logs[token] for step, token in zip(steps, reply, strict=False)), 0.0)
    ended = sum(exp(steps[-1].logs[stop]) for stop in stops)
    greedy = tuple(step.best for step in steps[:-1]) == reply and steps[-1].best in stops
    return ReplyScore(written + (log(ended) if ended else -inf), greedy)


def all_end_tokens(backend: VLLMBackend) -> frozenset[int]:
    """Return every token that ends a reply, from all configurations that name one, as ``hf.network.all_end_tokens`` does."""
    text = getattr(backend.engine.model_config.hf_text_config, "eos_token_id", None)
    tokenizer = backend.engine.renderer.get_eos_token_id()
    return frozenset(end_tokens(backend.checkpoint_decoding.get("eos_token_id"), text, tokenizer))


async def _next_token(backend: VLLMBackend, request: Request, prefix: Tokens, tokens: Sequence[int]) -> NextToken:
    """Ask for the log-probabilities of tokens after a prefix, in several requests if they exceed vLLM's limit for one."""
    parts = [tokens[start : start + MAX_LOGPROB_TOKEN_IDS] for start in range(0, len(tokens), MAX_LOGPROB_TOKEN_IDS)]
    answers = [await _ask(backend, request, prefix, part) for part in parts]
    return answers[0]._replace(logs={token: value for answer in answers for token, value in answer.logs.items()})


async def _ask(backend: VLLMBackend, request: Request, prefix: Tokens, tokens: Sequence[int]) -> NextToken:
    async def prompt() -> Any:
        rendered = await backend.prompts.prepare(request)
        return {**rendered, "prompt_token_ids": [*rendered["prompt_token_ids"], *prefix]}

    def make_params() -> SamplingParams:
        return SamplingParams(
            temperature=0.0, max_tokens=1, logprob_token_ids=list(tokens), detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip

    output, pictures, seconds = await backend.generate(prompt, make_params, 1, backend.lora)
    (answer,) = output.outputs
    usage = Reply(
        "", len(output.prompt_token_ids), 1, "stop", seconds, cached_tokens=output.num_cached_tokens,
        pictures=pictures.pictures, cached_pictures=pictures.cached,
    )  # fmt: skip
    logs = {token: float(entry.logprob) for token, entry in answer.logprobs[0].items()}
    return NextToken(logs, int(answer.token_ids[0]), usage)
