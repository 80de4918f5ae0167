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
from actors.engine.openai.reply import FIELDS, WORDS
from actors.engine.openai.request_body import OTHER_NAMES

MAX_WORDS, MAX_DEPTH = 40, 8
"""Most texts of an error body, and its deepest level, that are read."""
_TEXTS: dict[str, str] = {meaning: "|".join(words) for meaning, words in WORDS["refusal"].items()}
SUBJECT, EXCESS = (f"(?:{_TEXTS.pop(name)})" for name in ("subject", "excess"))
_TEXTS["too_long"] += f"|{SUBJECT}.{{0,80}}?{EXCESS}|{EXCESS}.{{0,80}}?{SUBJECT}"
MEANINGS = {meaning: re.compile(text, re.I | re.S) for meaning, text in _TEXTS.items()}
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
    ranks = {key: rank for rank, key in enumerate(FIELDS["shown"])}
    ordered = sorted(leaves, key=lambda leaf: ranks.get(leaf[0], len(ranks)))
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


def says(words: str, meaning: str) -> bool:
    """Return True if words of a service have this meaning (``words.toml``)."""
    return MEANINGS[meaning].search(words) is not None


def status_in(body: Mapping[str, Any], words: str) -> int:
    """Return the HTTP status that an error inside HTTP 200 stands for."""
    holders = [each for each in (body.get("error"), body) if isinstance(each, dict)]
    for code in (str(holder.get(name)) for holder in holders for name in ("code", "status", "status_code")):
        if len(code) == 3 and code.isdecimal() and 400 <= int(code) < 600:
            return int(code)
    return 402 if says(words, "no_money") else 429 if says(words, "rate") else 400 if says(words, "too_long") else 500


def judge_refusal(status: int, words: str, sent: Mapping[str, Any], too_long: bool = False) -> Verdict:
    """Return the kind of a refusal with this HTTP status.

    Args:
        sent: The body of the request.
        too_long: True if its prompt is longer than the model's context, which counts where the words do not say so.
    """
    if 300 <= status < 400:
        return ModelStopped, "the service redirects; give the final address as base_url"
    waits_a_minute = says(words, "per_minute") and not says(words, "per_day")
    if status == 401 or (says(words, "no_money") and not waits_a_minute):
        return ModelStopped, ""
    if status == 429 or (status < 500 and says(words, "rate")):
        return Throttled, ""
    if says(words, "filtered") and status < 500:
        return Refused, ""
    may_blame_body = status in (400, 403, 404, 405, 413, 415, 422, 500, 501)
    if may_blame_body and (verdict := _judge_body(status, words, sent, too_long)):
        return verdict
    is_odd = status in (400, 422) and not says(words, "misconfigured")
    if status >= 500 or status in (408, 409, 425) or (is_odd and says(words, "busy")):
        return RetryableError, ""
    return Unprocessable if is_odd else ModelStopped, ""


def _judge_body(status: int, words: str, sent: Mapping[str, Any], too_long: bool) -> Verdict | None:
    """Return the verdict on a refused field of the request, or on its length; None if the words blame neither."""
    fields = {**sent, **sent.get("extra_body", {})}
    named = [
        name for name in (*FIELDS["dispensable"], "temperature") if name in fields and re.search(rf"\b{name}\b", words)
    ]
    blames_prompt = says(words, "blames_prompt")
    if says(words, "reply_too_long") and not blames_prompt:
        return ModelStopped, "lower sampling.max_tokens, or the endpoint's reserve"
    is_too_long = status != 404 and says(words, "too_long")
    if named and says(words, "unsupported") and not (named[0] in OTHER_NAMES and blames_prompt and is_too_long):
        name = named[0]
        if name == "temperature" or (name in ("top_p", "top_k", "min_p") and fields[name] not in NEUTRAL):
            return ModelStopped, "write decoding = false in its endpoint"
        return FieldRefused, name
    if "tools" in fields and says(words, "no_tools") and not is_too_long:
        return FieldRefused, "tools"
    return (Overflow, "") if status == 413 or too_long or is_too_long else None
