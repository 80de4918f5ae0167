"""The dialect of one service: the fields that it refuses, the model's context, and its errors in its own words."""

from collections.abc import Callable, Mapping
from typing import Any

import openai
from openai import AsyncOpenAI

from actors.engine.openai import http_client
from actors.engine.openai.rate_limit import RetryableError
from actors.engine.openai.refusal import FieldRefused, judge_refusal, read_words, status_in
from actors.engine.openai.reply import Answer, ErrorInAnswer
from actors.engine.openai.request_body import OTHER_NAMES
from actors.text.printable import one_line
from actors.text.redaction import redact_key
from sweeps.spec import ModelSpec

REASON_LENGTH = 300
"""Maximum characters of a service's words in a reason."""
MAX_REST_S = 600.0
"""Most seconds that a service's wish to wait is followed."""


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
        where = http_client.describe_address(str(self.client.base_url))
        if isinstance(error, ErrorInAnswer):
            (body,) = error.args
            words, shown, rest = read_words(body), 200, None
            status = status_in(body, words)
        elif isinstance(error, openai.APIStatusError):
            words, status = read_words(error.response.text), error.status_code
            shown, rest = status, self.client._parse_retry_after_header(error.response.headers)
        else:
            return RetryableError(self.clean(f"{type(error).__name__}: {error.__cause__ or error}", where))
        kind, hint, throttled = judge_refusal(status, words, sent, too_long)
        if kind is FieldRefused:
            self.leave_out(hint)
            return FieldRefused(hint, 0.0)
        if status == 401:
            hint = f"the service refuses the key in {self.model.endpoint.key_env}"
        reason = self.clean(f"{self.model.name}: HTTP {shown}: {words.text}", where if status in (404, 405) else hint)
        if kind is not RetryableError:
            return kind(reason)
        return RetryableError(reason, rest if rest and 0 < rest <= MAX_REST_S else None, throttled)

    def leave_out(self, name: str) -> None:
        """Leave a refused field out of every further request, or give it its other name, and say so once."""
        other = OTHER_NAMES.get(name, "")
        self.refused_fields.setdefault(name, "" if other in self.refused_fields else other)
        left_out = "list the functions in the text" if name == "tools" else "leave it out"
        words = f"say {other}" if self.refused_fields[name] else left_out
        self.say(f"the service refuses {name}; requests {words}", name)

    async def is_too_long(self, error: Exception, estimate_tokens: Callable[[], int]) -> bool:
        """Return True if a refused prompt has more tokens than the service lists as the model's context."""
        if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 413, 422, 500):
            return False
        if self.context is None:
            self.context = await http_client.read_context(self.client, self.model.source)
        return self.context > 0 and self.context < estimate_tokens()

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
        words = one_line(redact_key(text, self.key))[:REASON_LENGTH]
        return f"{words}; {one_line(redact_key(hint, self.key))}" if hint else words

    def say(self, sentence: str, topic: str) -> None:
        """Print a sentence on the model, once per topic."""
        if topic not in self.said:
            self.said.add(topic)
            print(f"{self.model.name}: {self.clean(sentence)}", flush=True)
