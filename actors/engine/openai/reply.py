"""Reads a service's chat completion: untrusted JSON becomes one ``Answer``, whatever dialect the service speaks.

JSON that is no answer raises ``UnreadableAnswer``, an error inside an answer ``ErrorInAnswer``; an invalid token count becomes 0.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from actors.engine.chat_format import MAX_NAME, bounded_call
from actors.engine.openai.rate_limit import RetryableError

MAX_TOKENS = 10**9
"""More than any model reads or writes at once."""
MAX_CALLS = 16
"""Most function calls that are stored of a reply."""
MAX_SHOWN, MAX_PARTS = 40, 1000
"""Most characters of a service's value in a message, and most parts of a content."""
WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
FIELDS: dict[str, list[str]] = WORDS["fields"]
"""The words of services by meaning, and their fields by use."""
ENDS = {meaning: re.compile("|".join(words), re.I) for meaning, words in WORDS["end"].items()}
T = TypeVar("T")


class UnreadableAnswer(RetryableError):
    """JSON that is not an answer."""


class ErrorInAnswer(Exception):
    """An error that a service sends with HTTP 200; its argument is the body."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token counts of an answer."""

    prompt: int = 0
    reply: int = 0
    invalid: str = ""
    """Description of the invalid counts; empty if all are valid."""
    cached: int | None = None
    """Prompt tokens from the service's cache; None if it does not report them, or reports more than the prompt has."""
    thoughts: int | None = None
    """Tokens of the reply's thoughts; None if the service does not report them, or reports more than the reply has."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first choice of a completion."""

    text: str
    refusal: str = ""
    """The service's reason for declining; empty if it answers."""
    finish: str = "stop"
    """``stop``, ``length`` or ``content_filter``, by the meaning of ``word``."""
    calls: tuple[tuple[str, Any], ...] = ()
    """Name and arguments of each function call; arguments that are not a flat object stay text."""
    thoughts: str = ""
    word: str = ""
    """The service's own word for the end; empty if it gave none."""
    model: str = ""
    """The model that answered, as the service names it."""


def parse_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a response.

    Raises UnreadableAnswer for other JSON, ErrorInAnswer, and ValueError for other content.
    """
    try:
        answer = json.loads(content)
    except RecursionError:
        raise UnreadableAnswer("JSON nested too deep") from None
    if isinstance(answer, dict) and not answer.get("choices") and any(map(answer.get, ("error", "detail", "message"))):
        raise ErrorInAnswer(answer)
    if not isinstance(answer, dict):
        raise UnreadableAnswer("JSON that is not an object")
    return answer


def read_usage(answer: Mapping[str, Any]) -> Tokens:
    """Return the token counts of ``usage``; one that is not an integer from 0 to ``MAX_TOKENS`` becomes 0 and is described."""
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return Tokens(invalid=f"usage is {_shorten(usage)}")
    counts = {name: _count(usage, name, MAX_TOKENS) for name in ("prompt_tokens", "completion_tokens")}
    invalid = ", ".join(f"{name} is {_shorten(usage.get(name))}" for name, count in counts.items() if count is None)
    prompt, reply = (count or 0 for count in counts.values())
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens", prompt)
    thoughts = _count(usage.get("completion_tokens_details"), "reasoning_tokens", reply)
    return Tokens(prompt, reply, invalid, cached, thoughts)


def _count(holder: object, name: str, most: int) -> int | None:
    """Return a number of tokens; None if it is not an integer from 0 to ``most``."""
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def parse_first_choice(answer: Mapping[str, Any], tools: bool = False) -> Answer:
    """Return the first choice; raises UnreadableAnswer if it is no chat completion, and ErrorInAnswer.

    A text is kept whatever word stands for its end; without a text, an unknown word is unreadable. ``tools``: the request
    offered functions; without them, a reply that has no text but calls a function is unreadable, too.
    """
    choices = answer.get("choices")
    choice = _require(dict, choices[0] if isinstance(choices, list) and choices else choices, "choices")
    word = choice.get("finish_reason")
    finish = read_finish(word)
    if choice.get("error") or finish == "failed":
        raise ErrorInAnswer({"error": choice.get("error") or f"finish_reason is {_shorten(word)}"})
    message = _require(dict, choice.get("message"), "message")
    text, thoughts = _read_content(message)
    refusal = _require(str, message.get("refusal") or "", "refusal")
    model, shown = str(answer.get("model") or "")[:MAX_NAME], word[:MAX_SHOWN] if isinstance(word, str) else ""
    if finish == "content_filter" or refusal:
        return Answer(text, refusal or shown, "content_filter", (), thoughts, shown, model)
    called = message.get("tool_calls") or [{"function": call} for call in [message.get("function_call")] if call]
    calls = _read_calls(called) if tools else ()
    if not text and not calls and called:
        raise UnreadableAnswer("it calls a tool, but the request offered no tools")
    if finish == "unknown" and not (text or calls):
        raise UnreadableAnswer(f"finish_reason is {_shorten(word)}")
    return Answer(text, "", "length" if finish == "length" else "stop", calls, thoughts, shown, model)


def read_finish(word: object) -> str:
    """Return ``stop``, ``length``, ``content_filter``, ``failed`` or ``unknown``."""
    text = word if isinstance(word, str) else ""
    return next((meaning for meaning, pattern in ENDS.items() if pattern.search(text)), "unknown")


def _read_content(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text and the thoughts of a message, whose content is a text, null, or a list of parts."""
    content = message.get("content")
    thoughts = [value for name in FIELDS["thoughts"] if isinstance(value := message.get(name), str)][:1]
    texts = list[str]()
    parts = [content] if isinstance(content, str) else _require(list, content or [], "content")
    for part in parts[:MAX_PARTS]:
        kind, value = ("text", part) if isinstance(part, str) else _read_part(_require(dict, part, "content"))
        (texts if kind in ("text", "output_text") else thoughts).append(value)
    return "".join(texts), "".join(thoughts)


def _read_part(part: Mapping[str, Any]) -> tuple[str, str]:
    """Return the type and the text of a part; Mistral's thoughts are a list of parts in a part."""
    value = next((part[name] for name in ("text", "thinking", "reasoning") if name in part), "")
    inner = value[:MAX_PARTS] if isinstance(value, list) else [value]
    texts = (str((each.get("text") if isinstance(each, dict) else each) or "") for each in inner)
    return part.get("type", "text"), "".join(texts)


def _read_calls(tool_calls: object) -> tuple[tuple[str, Any], ...]:
    """Return the first ``MAX_CALLS`` calls of a message; raises UnreadableAnswer."""
    calls = []
    for call in _require(list, tool_calls, "tool_calls")[:MAX_CALLS]:
        function = _require(dict, _require(dict, call, "tool_calls").get("function"), "function")
        name, arguments = _require(str, function.get("name"), "name"), function.get("arguments")
        calls.append(bounded_call(name, _require(str, "" if arguments is None else arguments, "arguments")))
    return tuple(calls)


def _require(kind: type[T], value: object, name: str) -> T:
    if not isinstance(value, kind):
        raise UnreadableAnswer(f"{name} is {_shorten(value)}")
    return value


def _shorten(value: object) -> str:
    if value is None:
        return "missing"
    return repr(value)[:MAX_SHOWN] if isinstance(value, str | int | float) else f"a {type(value).__name__}"
