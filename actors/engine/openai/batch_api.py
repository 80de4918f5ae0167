"""The calls of OpenAI's Batch API that a sweep needs, without retries; they raise the SDK's errors.

Input files are uploaded from disk and result files are read line by line, so a batch of 200 MB is never in memory.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from openai import AsyncOpenAI
from pydantic import Field

from actors.engine.openai import http_client
from actors.engine.openai.batch_file import URL, BatchFile
from actors.engine.openai.batch_reply import ResultLine, ServiceBatch, parse_batch, parse_line
from actors.engine.openai.reply import UnreadableAnswer, Untrusted, parse_object, validate

MAX_RESULT_BYTES = 4 * 2**30
"""Maximum size of a result file: 50,000 replies of 80 KB."""
PAGE_SIZE, MAX_PAGES = 100, 1_000
"""Batches per page of a listing (the API's maximum), and the most pages that are read."""


class _File(Untrusted):
    id: Annotated[str, Field(min_length=1)]


class _Page(Untrusted):
    data: list[Any]
    has_more: Any = False


class BatchApi:
    """Files and batches of one account."""

    def __init__(self, client: AsyncOpenAI) -> None:
        self.client = client
        self.bulk_client = client.with_options(http_client=http_client.open_client(MAX_RESULT_BYTES))
        """For the content of files, which may be larger than any other response."""

    async def close(self) -> None:
        await self.bulk_client.close()

    async def upload(self, file: BatchFile) -> str:
        """Upload an input file and return its id."""
        file.file.seek(0)
        content = ("requests.jsonl", file.file, "application/jsonl")
        response = await self.bulk_client.files.with_raw_response.create(file=content, purpose="batch")
        return validate(_File, parse_object(response.content)).id

    async def delete(self, file_id: str) -> None:
        """Delete an uploaded file."""
        await self.client.files.with_raw_response.delete(file_id)

    async def create(self, file_id: str, metadata: Mapping[str, str]) -> ServiceBatch:
        """Submit an uploaded file as a batch, which the service bills."""
        response = await self.client.batches.with_raw_response.create(
            input_file_id=file_id, endpoint=URL, completion_window="24h", metadata=dict(metadata)
        )
        return parse_batch(parse_object(response.content))

    async def retrieve(self, batch_id: str) -> ServiceBatch:
        """Return the current state of a batch."""
        return parse_batch(parse_object((await self.client.batches.with_raw_response.retrieve(batch_id)).content))

    async def cancel(self, batch_id: str) -> None:
        """Stop a batch."""
        await self.client.batches.with_raw_response.cancel(batch_id)

    async def list_batches(self, metadata: Mapping[str, str]) -> list[ServiceBatch]:
        """Return the account's batches that carry this metadata, oldest first."""
        matching, last_id = list[ServiceBatch](), ""
        for _ in range(MAX_PAGES):
            after: dict[str, Any] = {"after": last_id} if last_id else {}
            response = await self.client.batches.with_raw_response.list(limit=PAGE_SIZE, **after)
            page = validate(_Page, parse_object(response.content))
            batches = [parse_batch(fields) for fields in page.data if isinstance(fields, dict)]
            matching += [batch for batch in batches if batch.carries(metadata)]
            if page.has_more is not True or not batches or batches[-1].id == last_id:
                break
            last_id = batches[-1].id
        return sorted(matching, key=lambda batch: (batch.created_at, batch.id))

    async def read_lines(self, file_id: str, seconds: float) -> list[ResultLine]:
        """Return the readable lines of a result file, one per request; ``seconds`` is how long its batch took."""
        lines = list[ResultLine]()
        async with self.bulk_client.files.with_streaming_response.content(file_id) as response:
            async for content in _split_lines(response.iter_bytes()):
                try:
                    lines.append(parse_line(content, seconds))
                except ValueError:
                    continue
        return lines


async def _split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the non-empty lines of a stream; raises UnreadableAnswer if one exceeds ``http_client.MAX_RESPONSE_BYTES``."""
    unfinished = bytearray()
    async for chunk in chunks:
        unfinished += chunk
        *lines, last = unfinished.split(b"\n") if b"\n" in chunk else (unfinished,)
        for line in lines:
            if line.strip():
                yield bytes(line)
        unfinished = bytearray(last)
        if len(unfinished) > http_client.MAX_RESPONSE_BYTES:
            raise UnreadableAnswer("a result file with an endless line")
    if unfinished.strip():
        yield bytes(unfinished)
