"""Samples replies for training: several per question, with the log-probability of each token."""

from pathlib import Path
from typing import Any, NamedTuple

from vllm import SamplingParams
from vllm.lora.request import LoRARequest
from vllm.sampling_params import RequestOutputKind

from actors.engine.chat_format import Chat
from actors.engine.vllm.backend import VLLMBackend


class GeneratedReply(NamedTuple):
    """One sampled reply."""

    tokens: list[int]
    """Ids of its tokens, with the end token if it has one."""
    logprobs: list[float]
    """Log-probability of each token at temperature 1."""


class RolloutSampling(NamedTuple):
    """Parameters of the replies to one question."""

    replies: int
    temperature: float
    seed: int
    max_tokens: int


async def sample_replies(
    backend: VLLMBackend, chat: Chat, sampling: RolloutSampling, adapter: Path
) -> list[GeneratedReply]:
    """Sample ``sampling.replies`` replies to one conversation; raises BackendDied.

    ``adapter`` is a folder named by a number, by which the engine identifies the adapter.
    """
    request = LoRARequest(adapter.name, int(adapter.name), str(adapter))

    async def prompt() -> Any:
        return backend.render(chat)

    def make_params() -> SamplingParams:
        return SamplingParams(
            n=sampling.replies, temperature=sampling.temperature, seed=sampling.seed % 2**31,
            max_tokens=sampling.max_tokens, logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip

    output, *_ = await backend.generate(prompt, make_params, sampling.max_tokens, request)
    return [_read_reply(reply) for reply in sorted(output.outputs, key=lambda reply: int(reply.index))]


def _read_reply(reply: Any) -> GeneratedReply:
    tokens = list(reply.token_ids)
    return GeneratedReply(
        tokens, [logprobs[token].logprob for token, logprobs in zip(tokens, reply.logprobs, strict=True)]
    )
