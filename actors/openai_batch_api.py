"""The calls of OpenAI's Batch API that a sweep needs; each is made once, and raises what the SDK raises.

Files go up from disk and come down line by line: a batch of 200 MB is never in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openai import AsyncOpenAI

from actors import openai_http
from actors.openai_batch_file import URL, BatchFile
from actors.openai_batch_reply import Batch, Line, batch, line
from actors.openai_reply import UnreadableAnswer, parsed

MAX_RESULT_BYTES = 4 * 2**30
"""Of a result file: 50,000 replies of 80 KB."""
PAGE, MAX_PAGES = 100, 1_000
"""Batches of one page of the list (the API's most), and pages that are read."""


class BatchApi:
    """Files and batches of one account."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self.client = client
        self.bulk = client.with_options(http_client=openai_http.client(MAX_RESULT_BYTES))

    async def close(self) -> None:
        """Close the connections for files."""
        await self.bulk.close()

    async def upload(self, file: BatchFile) -> str:
        """Upload an input file; its id."""
        file.file.seek(0)
        content = ("requests.jsonl", file.file, "application/jsonl")
        raw = await self.bulk.files.with_raw_response.create(file=content, purpose="batch")
        found = parsed(raw.content).get("id")
        if not isinstance(found, str) or not found:
            raise UnreadableAnswer("a file without an id")
        return found

    async def delete(self, file: str) -> None:
        """Delete an uploaded file."""
        await self.client.files.with_raw_response.delete(file)

    async def create(self, file: str, metadata: Mapping[str, str]) -> Batch:
        """Submit an uploaded file: from here on it costs money."""
        raw = await self.client.batches.with_raw_response.create(
            input_file_id=file, endpoint=URL, completion_window="24h", metadata=dict(metadata)
        )
        return batch(parsed(raw.content))

    async def retrieve(self, name: str) -> Batch:
        """How far a batch is."""
        return batch(parsed((await self.client.batches.with_raw_response.retrieve(name)).content))

    async def cancel(self, name: str) -> None:
        """Stop a batch."""
        await self.client.batches.with_raw_response.cancel(name)

    async def listed(self, metadata: Mapping[str, str]) -> list[Batch]:
        """The account's batches that carry this metadata, oldest first."""
        found, last = list[Batch](), ""
        for _ in range(MAX_PAGES):
            after: dict[str, Any] = {"after": last} if last else {}
            page = parsed((await self.client.batches.with_raw_response.list(limit=PAGE, **after)).content)
            rows = page.get("data")
            if not isinstance(rows, list):
                raise UnreadableAnswer("a list of batches without data")
            read = [batch(row) for row in rows if isinstance(row, dict)]
            found += [one for one in read if metadata.items() <= one.metadata.items()]
            if page.get("has_more") is not True or not read or read[-1].id == last:
                break
            last = read[-1].id
        return sorted(found, key=lambda one: (one.created, one.id))

    async def lines(self, file: str, seconds: float) -> list[Line]:
        """What a result file says of each request; lines that cannot be read are left out."""
        found = list[Line]()
        async with self.bulk.files.with_streaming_response.content(file) as response:
            async for content in _lines(response.iter_bytes()):
                try:
                    found.append(line(content, seconds))
                except ValueError:
                    continue
        return found


async def _lines(chunks: Any) -> Any:
    """The lines of a stream of bytes, none longer than ``openai_http.MAX_RESPONSE_BYTES``; raises UnreadableAnswer."""
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        *whole, tail = rest.split(b"\n") if b"\n" in chunk else (rest,)
        for one in whole:
            if one.strip():
                yield bytes(one)
        rest = bytearray(tail)
        if len(rest) > openai_http.MAX_RESPONSE_BYTES:
            raise UnreadableAnswer("a result file with an endless line")
    if rest.strip():
        yield bytes(rest)
