"""Request fields of servers other than OpenAI's: their names, and decoding defaults to switch off."""

from collections.abc import Mapping
from typing import Any

from actors.engine.backend import ModelStopped
from sweeps.endpoint import Endpoint
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec

LLAMA_CPP = "llama.cpp"
MOST_LONGER = 16
"""Tokens by which a reply may exceed twice its limit: servers count differently."""


def length_field(endpoint: Endpoint) -> str:
    """Return the name of the field that limits a reply's tokens; llama-cpp-python 0.3.36 ignores OpenAI's newer name."""
    return "max_tokens" if endpoint.server == LLAMA_CPP else "max_completion_tokens"


def server_fields(model: ModelSpec, sampling: Sampling) -> dict[str, Any]:
    """Return the request fields for which the SDK has no argument."""
    extra: dict[str, Any] = {}
    if model.endpoint.server == "vllm":
        extra = {"min_p": 0.0} if sampling.checkpoint else {"top_k": sampling.top_k, "min_p": 0.0}
        if model.repetition_penalty is not None:  # else the checkpoint's own applies
            extra["repetition_penalty"] = model.repetition_penalty
    if model.endpoint.server == LLAMA_CPP:  # its own defaults are 40, 0.05 and 1.1, whatever the checkpoint says
        penalty = 1.0 if model.repetition_penalty is None else model.repetition_penalty
        extra = {"top_k": max(0, sampling.top_k), "min_p": 0.0, "repeat_penalty": penalty}
    if model.chat:
        extra["chat_template_kwargs"] = model.chat
    if model.processor:
        extra["mm_processor_kwargs"] = model.processor
    return {**extra, **model.options}


def is_self_hosted(model: ModelSpec) -> bool:
    """Return True if the model's server is self-hosted: vLLM, llama.cpp, or any without a key."""
    endpoint = model.endpoint
    return bool(endpoint.base_url and (endpoint.server != "openai" or not endpoint.key_env)) and endpoint.decoding


def check_length(model: ModelSpec, reply_tokens: int, body: Mapping[str, Any]) -> None:
    """Raise ModelStopped if a self-hosted service ignores the limit of a reply."""
    limit = body.get(length_field(model.endpoint))
    if limit is None or "tools" in body or not is_self_hosted(model) or reply_tokens <= 2 * limit + MOST_LONGER:
        return
    raise ModelStopped(
        f"{model.name}: the service wrote {reply_tokens} tokens where {limit} are allowed, so it does not know"
        f' {length_field(model.endpoint)}; write server = "{LLAMA_CPP}" in its endpoint, or set the limit in its options'
    )
