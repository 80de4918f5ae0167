"""The input file of a batch: one request a line, within the limits of OpenAI's Batch API, on disk and not in memory.

The file has no name, so that nothing of it is left behind by a killed process.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

MAX_REQUESTS, MAX_BYTES = 50_000, 200_000_000
"""Of one file (OpenAI's guide "Batch API", and its API reference: 50,000 requests and 200 MB)."""
URL = "/v1/chat/completions"


class BatchFile:
    """Requests that go out together."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is
        self.ids: dict[str, float] = {}
        """``custom_id`` -> the most that the request may cost."""
        self.size = 0
        self._digest = sha256()

    @property
    def ceiling(self) -> float:
        """The most that all of it may cost."""
        return sum(self.ids.values())

    @property
    def digest(self) -> str:
        """SHA-256 of the content, 64 hex digits."""
        return self._digest.hexdigest()

    def fits(self, line: bytes) -> bool:
        """Whether the limits leave room for one more line; an empty file takes any, and the service says what it thinks."""
        return not self.ids or (len(self.ids) < MAX_REQUESTS and self.size + len(line) <= MAX_BYTES)

    def add(self, name: str, line: bytes, ceiling: float) -> None:
        """Append a request's line."""
        self.file.write(line)
        self._digest.update(line)
        self.ids[name] = ceiling
        self.size += len(line)

    def halves(self) -> Iterator[BatchFile]:
        """The first half of the requests as a file of its own, then the second."""
        self.file.seek(0)
        each = list(self.ids.items())
        for part in (each[: len(each) // 2], each[len(each) // 2 :]):
            half = BatchFile()
            for name, ceiling in part:
                half.add(name, self.file.readline(), ceiling)
            yield half

    def close(self) -> None:
        """Give its disk space back; safe to call twice."""
        self.file.close()


def request_id(key: str, body: Mapping[str, Any]) -> str:
    """The ``custom_id`` of a request: 40 hex digits of its episode's key and its content, the same in every attempt."""
    return sha256(f"{key}\n{json.dumps(body, sort_keys=True)}".encode()).hexdigest()[:40]


def line(name: str, body: Mapping[str, Any]) -> bytes:
    """A request as a line of the file."""
    return json.dumps({"custom_id": name, "method": "POST", "url": URL, "body": body}).encode() + b"\n"
