"""Writes the body of a request, with every decoding parameter that the service takes."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from actors.engine.backend import Request, images_of
from actors.engine.chat_format import Part, conversation, function_schema
from envs.tool_calls import NATIVE, Function, write_functions
from envs.types import ImageRef
from sweeps.sampling import Sampling
from sweeps.spec import ModelSpec

LLAMA_CPP = "llama.cpp"
NEW_LIMIT, OLD_LIMIT = "max_completion_tokens", "max_tokens"
"""The names of the field that limits a reply's tokens; llama-cpp-python 0.3.36 ignores OpenAI's newer one."""
OTHER_NAMES = {NEW_LIMIT: OLD_LIMIT, OLD_LIMIT: NEW_LIMIT}
MOST_LONGER = 16
"""Tokens by which a reply may exceed twice its limit: servers count differently."""
BYTES_PER_TOKEN, PIXELS_PER_TOKEN = 4, 784
"""For an estimate of a prompt's tokens: OpenAI's rule for texts, and the 28 x 28 pixels of most open models."""


def write_body(model: ModelSpec, request: Request, urls: Mapping[ImageRef, str]) -> dict[str, Any]:
    """Return the body of a request, whose pictures are sent as ``urls``."""

    def part(image: ImageRef) -> Part:
        return {"type": "image_url", "image_url": {"url": urls[image]}}

    sampling, endpoint = request.sampling, model.endpoint
    body: dict[str, Any] = {
        "model": model.source,
        "messages": conversation(request.messages, part, plain=True),
        OLD_LIMIT if endpoint.server == LLAMA_CPP else NEW_LIMIT: model.reply_limit(sampling),
    }
    if endpoint.decoding:
        body |= {"seed": request.seed}
        if not sampling.checkpoint:  # else the server's defaults apply, which for vLLM are the checkpoint's
            body |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
    if endpoint.effort:
        body["reasoning_effort"] = endpoint.effort
    if request.tools:  # "auto", because option letters are not forced either (docs/decisions/0014)
        body |= {"tools": [function_schema(function) for function in request.tools], "tool_choice": "auto"}
    return {**body, "extra_body": server_fields(model, sampling)}


def server_fields(model: ModelSpec, sampling: Sampling) -> dict[str, Any]:
    """Return the request fields for which the SDK has no argument."""
    extra: dict[str, Any] = {}
    if model.endpoint.server == "vllm":
        extra = {"min_p": 0.0} if sampling.checkpoint else {"top_k": sampling.top_k, "min_p": 0.0}
        if model.repetition_penalty is not None:  # else the checkpoint's own applies
            extra["repetition_penalty"] = model.repetition_penalty
        if model.thinking:  # some models mark thoughts by special tokens
            extra["skip_special_tokens"] = False
    if model.endpoint.server == LLAMA_CPP:  # its own defaults are 40, 0.05 and 1.1, whatever the checkpoint says
        penalty = 1.0 if model.repetition_penalty is None else model.repetition_penalty
        extra = {"top_k": max(0, sampling.top_k), "min_p": 0.0, "repeat_penalty": penalty}
    if model.chat:
        extra["chat_template_kwargs"] = model.chat
    if model.processor:
        extra["mm_processor_kwargs"] = model.processor
    return {**extra, **model.options}


def without_fields(
    body: Mapping[str, Any], refused: Mapping[str, str], functions: Sequence[Function] = ()
) -> dict[str, Any]:
    """Return the body without refused fields; ``refused`` maps each to its other name, or to an empty string.

    Without ``tools``, the question lists the functions as text.
    """
    names = {name: refused.get(name, name) for name in body}
    kept = {names[name]: value for name, value in body.items() if names[name]}
    extra = {name: value for name, value in body.get("extra_body", {}).items() if name not in refused}
    if functions and "tools" in refused:
        kept.pop("tool_choice", None)
        *earlier, question = body["messages"]
        kept["messages"] = [*earlier, {**question, "content": _list_functions(question["content"], functions)}]
    return {**kept, "extra_body": extra}


def _list_functions(content: str | list[Part], functions: Sequence[Function]) -> str | list[Part]:
    """Return a question's content with the functions in its text."""
    if isinstance(content, str):
        return content.removesuffix(NATIVE) + write_functions(functions)
    *pictures, last = content
    return [*pictures, {**last, "text": _list_functions(last["text"], functions)}]


def describe_overlong(model: ModelSpec, reply_tokens: int, body: Mapping[str, Any]) -> str:
    """Return why a self-hosted service must be stopped whose reply ignores its limit; empty if it does not."""
    endpoint = model.endpoint
    own = endpoint.base_url and endpoint.decoding and (endpoint.server != "openai" or not endpoint.key_env)
    field = NEW_LIMIT if NEW_LIMIT in body else OLD_LIMIT
    limit = body[field]
    if not own or "tools" in body or reply_tokens <= 2 * limit + MOST_LONGER:
        return ""
    remedy = f'write server = "{LLAMA_CPP}" in its endpoint, or ' if field == NEW_LIMIT else ""
    return (
        f"{model.name}: the service wrote {reply_tokens} tokens where {limit} are allowed, so it does not know {field};"
        f" {remedy}set the limit in its options"
    )


def estimate_tokens(request: Request, size: Callable[[ImageRef], tuple[int, int]]) -> int:
    """Return the estimated tokens of a prompt; ``size``: picture -> width and height."""
    texts = [*(message.text for message in request.messages), *(str(function) for function in request.tools)]
    pixels = sum(prod(size(image)) for image in images_of(request.messages))
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN + pixels // PIXELS_PER_TOKEN
