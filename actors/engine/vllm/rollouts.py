"""Replies sampled for a training: several to one question, with the log-probability of each token."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from vllm import SamplingParams
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind

from actors.engine.chat_format import Chat
from actors.engine.vllm.backend import VLLMBackend


class SampledReply(NamedTuple):
    """One sampled reply."""

    tokens: list[int]
    """With the end token where there was one."""
    logprobs: list[float]
    """Of each token under the model as it is, whatever the temperature."""


class RolloutSampling(NamedTuple):
    """Parameters of the replies to one question."""

    replies: int
    temperature: float
    seed: int
    max_tokens: int


async def sample_replies(backend: VLLMBackend, chat: Chat, how: RolloutSampling, adapter: Path) -> list[SampledReply]:
    """Sample ``how.replies`` replies to a conversation, which the engine reads once; raises BackendDied.

    ``adapter`` is a folder named by a number: the engine identifies the adapter by it and loads it with the first question.
    """
    request = LoRARequest(adapter.name, int(adapter.name), str(adapter))

    async def prompt() -> Any:
        return backend.render(chat)

    def choices() -> SamplingParams:
        return SamplingParams(
            n=how.replies, temperature=how.temperature, seed=how.seed % 2**31, max_tokens=how.max_tokens, logprobs=0,
            detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip

    output, *_ = await backend.generate(prompt, choices, how.max_tokens, request)
    return [_read_reply(reply) for reply in sorted(output.outputs, key=lambda reply: int(reply.index))]


def _read_reply(reply: Any) -> SampledReply:
    tokens = list(reply.token_ids)
    return SampledReply(tokens, [chances[token].logprob for token, chances in zip(tokens, reply.logprobs, strict=True)])
