"""The input file of a batch: one request per line, within the limits of OpenAI's Batch API, on disk and not in memory.

The file has no name, so that a killed process leaves none behind.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

MAX_REQUESTS, MAX_BYTES = 50_000, 200_000_000
"""Limits of one file (OpenAI's guide "Batch API", and its API reference: 50,000 requests and 200 MB)."""
URL = "/v1/chat/completions"


class BatchFile:
    """The requests of one batch."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        self.ceilings: dict[str, float] = {}
        """``custom_id`` -> the most that the request may cost."""
        self.size = 0
        self._digest = sha256()

    @property
    def ceiling(self) -> float:
        """The most that all requests together may cost."""
        return sum(self.ceilings.values())

    @property
    def digest(self) -> str:
        """SHA-256 of the content, 64 hex digits."""
        return self._digest.hexdigest()

    def fits(self, line: bytes) -> bool:
        """Return True if the limits leave room for this line; an empty file takes any line, which the service may refuse."""
        return not self.ceilings or (len(self.ceilings) < MAX_REQUESTS and self.size + len(line) <= MAX_BYTES)

    def add(self, name: str, line: bytes, ceiling: float) -> None:
        """Append a request's line."""
        self.file.write(line)
        self._digest.update(line)
        self.ceilings[name] = ceiling
        self.size += len(line)

    def halves(self) -> Iterator[BatchFile]:
        """Yield the first half of the requests as a new file, then the second."""
        self.file.seek(0)
        requests = list(self.ceilings.items())
        middle = len(requests) // 2
        for part in (requests[:middle], requests[middle:]):
            half = BatchFile()
            for name, ceiling in part:
                half.add(name, self.file.readline(), ceiling)
            yield half

    def close(self) -> None:
        self.file.close()


def request_id(key: str, body: Mapping[str, Any]) -> str:
    """Return a request's ``custom_id``: 40 hex digits that hash its episode's key and its body, equal in every attempt."""
    return sha256(f"{key}\n{json.dumps(body, sort_keys=True)}".encode()).hexdigest()[:40]


def request_line(name: str, body: Mapping[str, Any]) -> bytes:
    """Return a request as a line of the file."""
    return json.dumps({"custom_id": name, "method": "POST", "url": URL, "body": body}).encode() + b"\n"
