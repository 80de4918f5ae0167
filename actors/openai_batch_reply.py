"""Reads what a service's Batch API sent: batch objects and lines of result files, untrusted JSON like every answer.

What cannot be read raises ``UnreadableAnswer``; no field of another type reaches the backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from actors.openai_reply import UnreadableAnswer, parsed

FINAL = ("completed", "failed", "expired", "cancelled")
"""Statuses after which nothing changes; before them ``validating``, ``in_progress``, ``finalizing`` and ``cancelling``."""
EXPIRED = "batch_expired"
"""Error code of a request that the service had not reached when the batch's time was over; it is not billed."""
MISSING = "missing"
"""Of a request that a completed batch does not mention."""


class Batch(NamedTuple):
    """A batch as the service tells it."""

    id: str
    status: str
    input_file: str = ""
    output_file: str = ""
    error_file: str = ""
    code: str = ""
    """Of the first error of its validation, as ``problem``."""
    problem: str = ""
    metadata: Mapping[str, str] = {}
    created: float = 0.0
    """Seconds since 1970, as ``ended``; 0 where it is not told."""
    ended: float = 0.0


class Line(NamedTuple):
    """What became of one request of a batch."""

    id: str
    """The ``custom_id`` that it was sent with."""
    status: int = 0
    """Of HTTP; 0 where the request was never made."""
    body: dict[str, Any] = {}
    code: str = ""
    message: str = ""
    seconds: float = 0.0
    """From the batch's creation to its end."""


def batch(found: Mapping[str, Any]) -> Batch:
    """The batch that an answer describes; raises UnreadableAnswer without an id and a status."""
    name, status = _text(found, "id"), _text(found, "status")
    if not name or not status:
        raise UnreadableAnswer("a batch without an id or a status")
    metadata, problem = found.get("metadata"), _first_problem(found.get("errors"))
    ended = max(_number(found, f"{one}_at") for one in FINAL)
    return Batch(
        name,
        status,
        _text(found, "input_file_id"),
        _text(found, "output_file_id"),
        _text(found, "error_file_id"),
        _text(problem, "code"),
        _text(problem, "message"),
        {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {},
        _number(found, "created_at"),
        ended,
    )


def line(content: bytes, seconds: float = 0.0) -> Line:
    """One line of an output or error file; raises UnreadableAnswer, or ValueError for what is no JSON."""
    found = parsed(content)
    name = _text(found, "custom_id")
    if not name:
        raise UnreadableAnswer("a line without a custom_id")
    response = found.get("response")
    response = response if isinstance(response, dict) else {}
    status, body = int(_number(response, "status_code")), response.get("body")
    body = body if isinstance(body, dict) else {}
    error = next((one for one in (found.get("error"), body.get("error")) if isinstance(one, dict)), {})
    return Line(name, status, body, _text(error, "code"), _text(error, "message"), seconds)


def _first_problem(errors: Any) -> Mapping[str, Any]:
    listed = errors.get("data") if isinstance(errors, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return first if isinstance(first, dict) else {}


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _number(found: Mapping[str, Any], name: str) -> float:
    value = found.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return float(value) if usable else 0.0  # type: ignore[arg-type]
