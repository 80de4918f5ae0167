"""An HTTP client for untrusted services: bounded responses (error pages included), no redirects, no compression."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import httpx2 as httpx
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from actors.engine.openai.reply import parse_object
from actors.text.proxies import describe_proxy
from actors.text.redaction import redact_address
from sweeps.spec import ModelSpec

MAX_RESPONSE_BYTES = 16 * 2**20
"""Limit of a response; a reply of 131,072 tokens is about one MiB."""
CONTEXT_FIELDS = ("max_model_len", "context_length", "max_context_length", "context_window", "n_ctx")
"""Fields of a list of models with a context: vLLM's and SGLang's, OpenRouter's, LM Studio's, Groq's, llama.cpp's."""


class _Bounded(httpx.AsyncByteStream):
    """A response's bytes up to a limit; raises ReadError beyond it."""

    def __init__(self, stream: httpx.AsyncByteStream, limit: int) -> None:
        self.stream, self.limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self.stream:
            size += len(chunk)
            if size > self.limit:
                raise httpx.ReadError(f"the response is larger than {self.limit:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self.stream.aclose()


async def _bound(response: httpx.Response, limit: int) -> None:
    """Refuse a compressed response (a few bytes may unpack to gigabytes), and bound any other."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx.DecodingError("the response is compressed, although the request ruled that out")
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Bounded(response.stream, limit)


def open_client(limit: int = MAX_RESPONSE_BYTES) -> httpx.AsyncClient:
    """Return a client that reads at most ``limit`` bytes of a response."""
    client: httpx.AsyncClient = DefaultAsyncHttpxClient(
        follow_redirects=False,  # a redirect would send prompts and pictures to another address
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [partial(_bound, limit=limit)]},
    )
    return client


def read_key(model: ModelSpec) -> str:
    """Return the key from the environment, empty for a service without one; raises ValueError if it is not set."""
    name = model.endpoint.key_env
    if name and not os.environ.get(name):
        raise ValueError(
            f'{model.name} needs a key: set {name}, or write key_env = "" in its entry if the service needs none'
        )
    return os.environ.get(name, "") if name else ""


def describe_address(base_url: str) -> str:
    """Return where requests go: the asked address, the proxy on the way, and whether the address lacks its version."""
    lacks = "" if re.search(r"/v\d", urlsplit(base_url).path) else "; its base_url has no /v1, which most services need"
    return f"asked {redact_address(base_url).rstrip('/')}/chat/completions{describe_proxy(base_url)}{lacks}"


async def read_context(client: AsyncOpenAI, source: str) -> int:
    """Return the tokens of a model's context as its service lists them; 0 if it does not."""
    with suppress(Exception):  # the list is untrusted, and only helps to name an error
        response = await client.models.with_raw_response.list(timeout=10)
        entries = [entry for entry in parse_object(response.content)["data"] if entry["id"] == source]
        fields = {**entries[0].get("meta", {}), **entries[0]}
        return next((int(fields[name]) for name in CONTEXT_FIELDS if isinstance(fields.get(name), int)), 0)
    return 0
