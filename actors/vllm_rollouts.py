"""Replies sampled for a training: several to one question, with the log-probability of each token."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from vllm import SamplingParams
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind

from actors.chat_format import Chat
from actors.vllm_backend import VLLMBackend


class Sampled(NamedTuple):
    """One reply."""

    tokens: list[int]
    """With the end token where there was one."""
    logprobs: list[float]
    """Of each token under the model as it is, whatever the temperature."""


class Sampling(NamedTuple):
    """How a question is answered."""

    replies: int
    temperature: float
    seed: int
    max_tokens: int


async def sampled(backend: VLLMBackend, chat: Chat, how: Sampling, adapter: Path) -> list[Sampled]:
    """``how.replies`` replies to a conversation, which the engine reads once; raises BackendDied.

    ``adapter`` is a folder whose name is a number: the engine knows the adapter by it and loads it with the first question.
    """
    request = LoRARequest(adapter.name, int(adapter.name), str(adapter))

    async def prompt() -> Any:
        return backend.rendered(chat)

    def choices() -> SamplingParams:
        return SamplingParams(
            n=how.replies, temperature=how.temperature, seed=how.seed % 2**31, max_tokens=how.max_tokens, logprobs=0,
            detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip

    found, *_ = await backend.generated(prompt, choices, how.max_tokens, request)
    return [_reply(one) for one in sorted(found.outputs, key=lambda one: int(one.index))]


def _reply(one: Any) -> Sampled:
    tokens = list(one.token_ids)
    return Sampled(tokens, [chances[token].logprob for token, chances in zip(tokens, one.logprobs, strict=True)])
