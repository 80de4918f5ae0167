"""A catalogue of what a hostile or broken OpenAI-compatible service may answer, by name.

Each mode has the outcome that a backend must give it: a reply, an ending of that episode, waiting, or a stop of that model.
"""

import gzip
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.actors.service import Answer, completion, failure

KEY = "sk-Vw3Nf6Jd-Zq8Xw2Lm-7Rt5Yv1Kp9Bn3"
"""The key that the services below repeat."""
REPLY, ENDS, WAITS, STOPS = "reply", "ends", "waits", "stops"
OSC52, CLEAR, TITLE, C1 = "\x1b]52;c;cm0gLXJmIH4=\x07", "\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\x9b2J"
CONTROL = f"A{OSC52}{CLEAR}{TITLE}{C1}\u202etxt\r\b\x00"
DEEP = 200_000


class Mode(NamedTuple):
    """One answer, and what must come of a request that gets it every time."""

    answer: Answer
    outcome: str


def changed(**fields: Any) -> Answer:
    """An ordinary answer with other fields at its top; ``...`` leaves a field out."""
    body = {**completion("A")[2], **fields}
    return 200, {}, {name: value for name, value in body.items() if value is not ...}


def choice(**fields: Any) -> Answer:
    """An ordinary answer with other fields in its choice; ``...`` leaves a field out."""
    ordinary = {**completion("A")[2]["choices"][0], **fields}
    return changed(choices=[{name: value for name, value in ordinary.items() if value is not ...}])


def message(**fields: Any) -> Answer:
    """An ordinary answer with other fields in its message."""
    return choice(message={"role": "assistant", "content": "A", **fields})


def used(count: Any) -> Answer:
    """An ordinary answer with this for both token counts."""
    return changed(usage={"prompt_tokens": count, "completion_tokens": count, "total_tokens": count})


def raw(body: bytes, status: int = 200, **headers: str) -> Answer:
    """These bytes; header names are written with underscores."""
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, body


ORDINARY = json.dumps(completion("A")[2]).encode()
CALL = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]

USAGE: Mapping[str, Answer] = {
    "usage 10**30": used(10**30), "usage 2**63": used(2**63), "usage negative": used(-5), "usage NaN": used(float("nan")),
    "usage infinite": used(float("inf")), "usage text": used("100"), "usage list": used([1]),
    "usage true": used(True), "usage fraction": used(1.5), "usage null counts": used(None),
    "usage missing": changed(usage=...), "usage is a list": changed(usage=[1, 2]),
}  # fmt: skip
SHAPES: Mapping[str, Answer] = {
    "choices missing": changed(choices=...), "choices null": changed(choices=None), "choices empty": changed(choices=[]),
    "choices [null]": changed(choices=[None]), "choices text": changed(choices="A"), "choices object": changed(choices={}),
    "choices [number]": changed(choices=[7]), "message null": choice(message=None), "message list": choice(message=["A"]),
    "content number": message(content=7), "content object": message(content={"a": 1}), "refusal list": message(refusal=["no"]),
    "tool calls": message(content=None, tool_calls=CALL), "JSON null": raw(b"null"), "JSON list": raw(b"[]"),
    "JSON text": raw(b'"A"'), "JSON NaN": raw(b"NaN"),
    "JSON list 200,000 deep": raw(b"[" * DEEP + b"]" * DEEP),
    "JSON object 200,000 deep": raw(b'{"choices":' * DEEP + b"1" + b"}" * DEEP),
    "choices 200,000 deep": raw(b'{"choices":' + b"[" * DEEP + b"]" * DEEP + b"}"),
}  # fmt: skip
BODIES: Mapping[str, Answer] = {
    "empty body": raw(b""), "no JSON": raw(b"A"), "an HTML page": raw(b"<html>ok</html>", content_type="text/html"),
    "invalid UTF-8": raw(b'{"choices": "\xff\xfe\x80"}'), "JSON cut off": raw(ORDINARY[:-20]),
    "a number of 10,000 digits": raw(b'{"created": ' + b"9" * 10_000 + b"}"),
    "body shorter than said": raw(ORDINARY[:50], content_length=str(len(ORDINARY)), connection="close"),
    "body of 20 MB": raw(b'{"x": "' + b"A" * 20_000_000 + b'"}'),
    "compressed": raw(gzip.compress(ORDINARY), content_encoding="gzip"),
    "compressed bomb": raw(gzip.compress(bytes(50_000_000)), content_encoding="gzip"),
    "compressed error bomb": raw(gzip.compress(bytes(50_000_000)), 400, content_encoding="gzip"),
    "204 without a body": raw(b"", 204), "HTML under 500": raw(b"<html>" * 1000, 500, content_type="text/html"),
    "503 and an odd retry-after": failure(503, retry_after="NaN"),
    "503 and a negative retry-after": failure(503, retry_after="-9"),
    "503 and a date of 1900": failure(503, retry_after="Mon, 01 Jan 1900 00:00:00 GMT"),
    "error code of 10,000 digits": (200, {}, {"error": {"code": "9" * 10_000}}),
    "500 with the key": failure(500, KEY, KEY),
    "error under 200": (200, {}, {"error": "no"}), "error 500 deep": raw(b"[" * DEEP + b"]" * DEEP, 500),
    "an unknown status": raw(b"", 599),
}  # fmt: skip
FINE: Mapping[str, Answer] = {
    "finish_reason null": choice(finish_reason=None), "finish_reason unknown": choice(finish_reason="tired"),
    "finish_reason missing": choice(finish_reason=...), "finish_reason list": choice(finish_reason=["stop"]),
    "content parts": message(content=[{"type": "text", "text": "A"}]),
    "JSON as text/plain": raw(ORDINARY, content_type="text/plain"),
    "JSON as a stream": raw(ORDINARY, content_type="text/event-stream"),
    "a text that is the key": message(content=[KEY]), "half a surrogate pair": message(content="A\ud800"),
    "control characters in the reply": message(content=CONTROL),
    "the key in the reply": message(content=f"A {KEY} {KEY[4:17]}"), "the key in every other field": changed(
        id=KEY, model=KEY, object=KEY, system_fingerprint=KEY, service_tier=KEY, created=KEY),
    "finish_reason with the key": choice(finish_reason=KEY),
    "finish_reason with control characters": choice(finish_reason=CONTROL),
    "control characters in the model name": changed(model=CONTROL, id=CONTROL), "created is a list": changed(created=[1]),
    "two choices": changed(choices=completion("A")[2]["choices"] * 2), "logprobs odd": choice(logprobs=[1], index="x"),
}  # fmt: skip
DECLINED: Mapping[str, Answer] = {
    "refusal with the key": message(content=None, refusal=f"no: {'x' * 290}{KEY} {KEY[:12]}"),
    "refusal with control characters": message(content=None, refusal=CONTROL),
    "400 with the key": failure(400, KEY, f"{'y' * 280}{KEY}"),
    "400 with part of the key": failure(400, "", f"bad key {KEY[3:14]}"),
    "400 with control characters": failure(400, CONTROL, CONTROL), "413 with a list": (413, {}, [[KEY]]),
    "422 with null": (422, {}, None), "400 and the code a number": (400, {}, {"error": {"message": 5, "code": 7}}),
    "400 and the code a list": (400, {}, {"error": {"message": [KEY], "code": [KEY]}}),
}  # fmt: skip
FINAL: Mapping[str, Answer] = {
    "301 elsewhere": raw(b"", 301, location="http://127.0.0.1:9/v1"),
    "307 in a circle": raw(b"", 307, location="/v1/chat/completions"),
    "302 to a file": raw(b"", 302, location="file:///etc/hostname"),
    "401 with the key": failure(401, KEY, f"Incorrect key {KEY}"),
    "403 with the key": failure(403, KEY, f"{'z' * 280}{KEY}"),
    "404 with control characters": failure(404, CONTROL, CONTROL),
}  # fmt: skip

MODES: dict[str, Mode] = {
    name: Mode(answer, outcome)
    for kind, outcome in (
        (USAGE, REPLY), (SHAPES, ENDS), (BODIES, WAITS), (FINE, REPLY), (DECLINED, ENDS), (FINAL, STOPS),
    )
    for name, answer in kind.items()
}  # fmt: skip
"""Name -> mode; the names say what is odd."""


def pieces(key: str, size: int = 8) -> list[bytes]:
    """Every run of so many characters of a key."""
    return [key[start : start + size].encode() for start in range(len(key) - size + 1)]
