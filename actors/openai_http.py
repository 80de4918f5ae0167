"""An HTTP client for services that are not trusted: bounded responses, no redirects, no compression.

No more of a response than a client's bound, error pages included, ever comes in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import httpx2 as httpx
from openai import DefaultAsyncHttpxClient

MAX_RESPONSE_BYTES = 16 * 2**20
"""A reply of 131,072 tokens is about one MiB."""


class _Bounded(httpx.AsyncByteStream):
    """A response's bytes up to the limit; raises ReadError beyond it."""

    def __init__(self, stream: httpx.AsyncByteStream, most: int) -> None:
        self.stream, self.most = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self.stream:
            size += len(chunk)
            if size > self.most:
                raise httpx.ReadError(f"the response is larger than {self.most:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self.stream.aclose()


async def _bound(response: httpx.Response, most: int) -> None:
    """Refuse a compressed response, which none was asked for (a few bytes may unpack to gigabytes), and bound any other."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise httpx.DecodingError("the response is compressed, which was not asked for")
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Bounded(response.stream, most)


def client(most: int = MAX_RESPONSE_BYTES) -> httpx.AsyncClient:
    """The client, which takes ``most`` bytes of a response.

    A redirect is an error that names itself, for it would take prompts and pictures to another address.
    """
    found: httpx.AsyncClient = DefaultAsyncHttpxClient(
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [partial(_bound, most=most)]},
    )
    return found
