"""One service: a bounded HTTP client, the fields that it refuses, the model's context, and its errors in its own words."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from actors.engine.backend import ModelStopped
from actors.engine.openai.rate_limit import RetryableError
from actors.engine.openai.refusal import FieldRefused, judge_refusal, read_words, status_in
from actors.engine.openai.reply import FIELDS, Answer, ErrorInAnswer, parse_object
from actors.engine.openai.request_body import OTHER_NAMES
from actors.text.printable import LONGEST_ERROR, one_line
from actors.text.proxies import describe_proxy
from actors.text.redaction import redact_address, redact_key
from sweeps.spec import ModelSpec

MAX_REST_S = 600.0
"""Most seconds that a service's wish to wait is followed."""
MAX_RESPONSE_BYTES = 16 * 2**20
"""Limit of a response; a reply of 131,072 tokens is about one MiB."""


async def _read_bounded(response: httpx.Response) -> None:
    """Read at most ``MAX_RESPONSE_BYTES``, and refuse a compressed response, of which a few bytes may unpack to gigabytes."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx.DecodingError("the response is compressed, although the request ruled that out")
    content, stream = bytearray(), response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    async for chunk in stream:
        content += chunk
        if len(content) > MAX_RESPONSE_BYTES:
            raise httpx.ReadError(f"the response is larger than {MAX_RESPONSE_BYTES:,} bytes")
    await stream.aclose()
    response.stream = httpx.ByteStream(bytes(content))


def open_client() -> httpx.AsyncClient:
    """Return a client for an untrusted service."""
    client: httpx.AsyncClient = DefaultAsyncHttpxClient(
        follow_redirects=False,  # a redirect would send prompts and pictures to another address
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_read_bounded]},
    )
    return client


def read_key(model: ModelSpec) -> str:
    """Return the key from the environment, empty for a service without one; raises ValueError if it is not set."""
    name = model.endpoint.key_env
    if name and not os.environ.get(name):
        remedy = f'set {name}, or write key_env = "" in its entry if the service needs none'
        raise ValueError(f"{model.name} needs a key: {remedy}")
    return os.environ.get(name, "") if name else ""


def describe_address(base_url: str) -> str:
    """Return where requests go: the asked address, the proxy on the way, and whether the address lacks its version."""
    lacks = "" if re.search(r"/v\d", urlsplit(base_url).path) else "; its base_url has no /v1, which most services need"
    return f"asked {redact_address(base_url).rstrip('/')}/chat/completions{describe_proxy(base_url)}{lacks}"


class Dialect:
    """The facts that answers of one service have revealed."""

    def __init__(self, model: ModelSpec, client: AsyncOpenAI, key: str) -> None:
        self.model, self.client, self.key = model, client, key
        self.refused_fields = dict[str, str]()
        """Field that the service refuses -> its other name, or an empty string."""
        self.context: int | None = None
        """Tokens of the model's context as the service lists them; 0 if it lists none, None before it is asked."""
        self.said = set[str]()

    def classify(self, error: Exception, sent: Mapping[str, Any], too_long: bool = False) -> Exception:
        """Return the RetryableError or BackendError of an error of the SDK; arguments as in ``judge_refusal``."""
        where = describe_address(str(self.client.base_url))
        if isinstance(error, ErrorInAnswer):
            (body,) = error.args
            words, shown, rest = read_words(body), 200, None
            status = status_in(body, words)
        elif isinstance(error, openai.APIStatusError):
            words, status = read_words(error.response.text), error.status_code
            shown, rest = status, self.client._parse_retry_after_header(error.response.headers)
        else:
            return RetryableError(self.clean(f"{type(error).__name__}: {error.__cause__ or error}", where))
        kind, hint = judge_refusal(status, words, sent, too_long)
        if kind is FieldRefused and OTHER_NAMES.get(hint) in self.refused_fields:
            kind, hint = ModelStopped, "it refuses both names of a reply's limit; play through another server"
        if kind is FieldRefused:
            self.leave_out(hint)
            return FieldRefused(hint, 0.0)
        if status == 401:
            key = self.model.endpoint.key_env
            wanted = 'it wants a key: write key_env = "NAME" in its entry, and set the variable NAME'
            hint = f"the service refuses the key in {key}" if key else wanted
        reason = self.clean(f"{self.model.name}: HTTP {shown}: {words}", where if status in (404, 405) else hint)
        if issubclass(kind, RetryableError):
            return kind(reason, rest if rest and 0 < rest <= MAX_REST_S else None)
        return kind(reason)

    def leave_out(self, name: str) -> None:
        """Leave a refused field out of every further request, or give it its other name, and say so once."""
        self.refused_fields.setdefault(name, OTHER_NAMES.get(name, ""))
        left_out = "list the functions in the text" if name == "tools" else "leave it out"
        words = f"say {other}" if (other := self.refused_fields[name]) else left_out
        self.say(f"the service refuses {name}; requests {words}", name)

    async def is_too_long(self, error: Exception, estimate_tokens: Callable[[], int]) -> bool:
        """Return True if a refused prompt has more tokens than the service lists as the model's context."""
        if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 413, 422, 500):
            return False
        if self.context is None:
            self.context = await self._read_context()
        return 0 < self.context < estimate_tokens()

    async def _read_context(self) -> int:
        with suppress(Exception):  # the list is untrusted, and only helps to name an error
            response = await self.client.models.with_raw_response.list(timeout=10)
            entries = [entry for entry in parse_object(response.content)["data"] if entry["id"] == self.model.source]
            fields = {**entries[0].get("meta", {}), **entries[0]}
            return next((int(fields[name]) for name in FIELDS["context"] if isinstance(fields.get(name), int)), 0)
        return 0

    def describe(self, answer: Answer) -> str:
        """Return what the service did otherwise than asked, for the turn's row; empty if nothing."""
        parts = [f"model {answer.model}"] if answer.model not in ("", self.model.source) else []
        if parts:
            self.say(f"the service answers as {answer.model}, asked for {self.model.source}", "model")
        parts += [f"end {answer.word or 'unnamed'}"] if answer.word not in ("stop", "length") else []
        parts += [f"without {name}" for name, other in self.refused_fields.items() if not other]
        return self.clean("; ".join(parts))

    def clean(self, text: str, hint: str = "") -> str:
        """Return one line without control characters and key; it is cut last, because half a key is not recognized."""
        words = one_line(redact_key(text, self.key))[:LONGEST_ERROR]
        return f"{words}; {one_line(redact_key(hint, self.key))}" if hint else words

    def say(self, sentence: str, topic: str) -> None:
        """Print a sentence on the model, once per topic."""
        if topic not in self.said:
            self.said.add(topic)
            print(f"{self.model.name}: {self.clean(sentence)}", flush=True)
