"""An HTTP client for untrusted services: bounded responses (error pages included), no redirects, no compression."""

import os
from collections.abc import AsyncIterator
from functools import partial

import httpx2 as httpx
from openai import DefaultAsyncHttpxClient

from sweeps.spec import ModelSpec

MAX_RESPONSE_BYTES = 16 * 2**20
"""Limit of a response; a reply of 131,072 tokens is about one MiB."""


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
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
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
