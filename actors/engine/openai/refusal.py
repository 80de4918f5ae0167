"""Reads a service's refusal: its kind, the service's own words, and what to change.

Services word the same refusal differently, so the kind follows from the status, the error codes, and the meaning of the words.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

from actors.engine.backend import ModelStopped, Overflow, Refused, Unprocessable
from actors.engine.openai.rate_limit import RetryableError, Throttled

FIRST_KEYS = ("message", "msg", "detail", "error", "raw", "reason", "description", "title", "loc")
"""Keys of an error body whose texts are shown first."""
MAX_WORDS, MAX_DEPTH = 40, 8
"""Most texts of an error body, and its deepest level, that are read."""
FILTERED = re.compile(
    r"content[ _-]?(?:filter|policy|management|moderation)|moderation|data[ _]?inspection|invalid_prompt|safety (?:system|filter)"
    r"|responsible ?ai|usage polic|prohibited content|sensitive (?:content|words)|inappropriate content", re.I,
)  # fmt: skip
SUBJECT = r"(?:context|prompts?|inputs?|tokens?|messages?|sequences?|images?|pictures?|requests?|entity|payload)\b"
EXCESS = (
    r"(?:exceed\w*|too (?:long|large|big|many)|(?:longer|larger|greater|more) than|overflow\w*|maximum|at most|out of range"
    r"|must (?:be|have) (?:<=?|less|fewer|at most)|reduce the length|cannot truncate|length limit)"
)
TOO_LONG = re.compile(
    f"context_?(?:length|window|size)|range of (?:input )?length|{SUBJECT}.{{0,80}}?{EXCESS}|{EXCESS}.{{0,80}}?{SUBJECT}",
    re.I | re.S,
)
"""Words for a prompt that is too long or has too many pictures; the tests list those of the services."""
REPLY_TOO_LONG = re.compile(
    r"max_(?:completion_|output_|new_)?tokens\W+(?:is |are )?(?:too (?:large|big|high)|above|greater)"
    r"|at most \d+ (?:completion|output) tokens", re.I,
)  # fmt: skip
NO_TOOLS = re.compile(r"tool[ _-]?(?:choice|use|call|s\b)|function[ _-]?call", re.I)
RATE = re.compile(
    r"rate[ _-]?limit|too many requests|throttl|concurrency limit|resource_?exhausted|tokens per min", re.I
)
NO_MONEY = re.compile(
    r"insufficient[ _](?:quota|balance|credit|fund)|exceeded your current quota|billing|not enough credits|payment required"
    r"|credit balance", re.I,
)  # fmt: skip
BUSY = re.compile(r"overload|unavailable|try again|loading|warming|timed? ?out", re.I)
UNSUPPORTED = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|extra|permitted|allowed|invalid|accept|forbidden|instead|implemented|available",
    re.I,
)
MISCONFIGURED = re.compile(r"\b(?:unsupported_parameter|unsupported_value|unknown_parameter|model_not_found)\b", re.I)
"""Error codes, sent with HTTP 400, that every request would get."""
DROPPED = ("max_completion_tokens", "max_tokens", "seed", "tool_choice", "top_k", "min_p", "top_p")
"""Fields that a request can do without: the limit has two names, and the others choose nothing where they are neutral."""
NEUTRAL = (1.0, 0, -1)
"""Values of ``top_p``, ``top_k`` and ``min_p`` that keep every token."""


class FieldRefused(RetryableError):
    """A refusal of one field, whose name is ``reason``; the request is sent again without it."""


Verdict = tuple[type[Exception], str]
"""The error class of a refusal, and what the user can change; for ``FieldRefused``, the field."""


def read_words(content: str | Any) -> str:
    """Return the words and codes of an error body: JSON of any shape, a page, or plain text."""
    body = content
    if isinstance(content, str):
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            page = re.sub(r"<(script|style)\b.*?</\1>", " ", content[:20_000], flags=re.I | re.S)
            return unescape(re.sub(r"<[^>]*>", " ", page)).strip()
    leaves = [leaf for leaf, _ in zip(_leaves(body, "", 0), range(MAX_WORDS), strict=False)]
    ordered = sorted(leaves, key=lambda leaf: FIRST_KEYS.index(leaf[0]) if leaf[0] in FIRST_KEYS else len(FIRST_KEYS))
    return "; ".join(dict.fromkeys(text for key, text in ordered if key != "object"))


def _leaves(value: Any, key: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the texts of a body with the key that each stands under."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, str(name), depth + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, key, depth + 1)
    elif isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
        yield key, str(value)


def status_in(body: Mapping[str, Any], words: str) -> int:
    """Return the HTTP status that an error inside HTTP 200 stands for."""
    holders = [each for each in (body.get("error"), body) if isinstance(each, dict)]
    for code in (str(holder.get(name)) for holder in holders for name in ("code", "status", "status_code")):
        if code.isdecimal() and 400 <= int(code) < 600:
            return int(code)
    return 402 if NO_MONEY.search(words) else 429 if RATE.search(words) else 400 if TOO_LONG.search(words) else 500


def judge_refusal(status: int, words: str, sent: Mapping[str, Any], too_long: bool = False) -> Verdict:
    """Return the kind of a refusal with this HTTP status.

    Args:
        sent: The body of the request.
        too_long: True if its prompt is longer than the model's context, which counts where the words do not say so.
    """
    if 300 <= status < 400:
        return ModelStopped, "the service redirects; give the final address as base_url"
    if status == 401 or NO_MONEY.search(words):
        return ModelStopped, ""
    if status == 429 or (status < 500 and RATE.search(words)):
        return Throttled, ""
    if FILTERED.search(words) and status < 500:
        return Refused, ""
    if status in (400, 403, 404, 405, 413, 415, 422, 500, 501) and (
        verdict := _judge_body(status, words, sent, too_long)
    ):
        return verdict
    is_odd = status in (400, 422) and not MISCONFIGURED.search(words)
    if status >= 500 or status in (408, 409, 425) or (is_odd and BUSY.search(words)):
        return RetryableError, ""
    return Unprocessable if is_odd else ModelStopped, ""


def _judge_body(status: int, words: str, sent: Mapping[str, Any], too_long: bool) -> Verdict | None:
    """Return the verdict on a refused field of the request, or on its length; None if the words blame neither."""
    fields = {**sent, **sent.get("extra_body", {})}
    named = [name for name in (*DROPPED, "temperature") if name in fields and re.search(rf"\b{name}\b", words)]
    if REPLY_TOO_LONG.search(words) and not re.search("context|prompt|input", words, re.I):
        return ModelStopped, "lower sampling.max_tokens, or the endpoint's reserve"
    if named and UNSUPPORTED.search(words):
        name = named[0]
        if name == "temperature" or (name in ("top_p", "top_k", "min_p") and fields[name] not in NEUTRAL):
            return ModelStopped, "write decoding = false in its endpoint"
        return FieldRefused, name
    if "tools" in fields and NO_TOOLS.search(words) and not TOO_LONG.search(words):
        return FieldRefused, "tools"
    is_overflow = status == 413 or too_long or (status != 404 and TOO_LONG.search(words))
    return (Overflow, "") if is_overflow else None
