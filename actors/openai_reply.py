"""Reads what a service sent as a chat completion: untrusted JSON, checked before anything uses it.

What cannot be an answer raises ``UnreadableAnswer``; an odd token count is 0 and noted, so that no number reaches the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.tool_calls import once

MAX_TOKENS = 10**9
"""No model reads or writes so many at once; more is no count."""
FINISHES = frozenset(("stop", "length", "eos_token", "end_turn", "stop_sequence", "max_tokens"))
"""Words for a finished reply: OpenAI's and vLLM's first two, and those of TGI's and Anthropic's own endpoints."""

MAX_CALLS, MAX_NAME, MAX_ARGUMENTS = 16, 100, 10_000
"""Function calls of one reply that are kept (two are one too many), and characters of a name and of arguments."""
SPENT = ("length", "max_tokens")
"""Those that say that the reply's tokens were spent."""


class UnreadableAnswer(ValueError):
    """JSON came, and no answer can be read from it; the message says what is odd."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an answer was charged for."""

    prompt: int = 0
    reply: int = 0
    odd: str = ""
    """What could not be taken for a count; empty where all is well, or nothing was said."""
    cached: int | None = None
    """Of the prompt's, those that the service had cached; None where it does not say, or says more than there are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first choice of a completion."""

    text: str
    refusal: str
    """Why the service declines; empty where it does not."""
    finish: str
    """``stop``, ``length`` or ``content_filter``."""
    calls: tuple[tuple[str, Any], ...] = ()
    """Name and arguments of each function call; arguments that are no flat object are the text that came."""


def parsed(content: bytes) -> dict[str, Any]:
    """The JSON object of a response; raises UnreadableAnswer for other JSON, ValueError for what is no JSON."""
    try:
        found = json.loads(content)
    except RecursionError:
        raise UnreadableAnswer("JSON nested too deep") from None
    if not isinstance(found, dict):
        raise UnreadableAnswer(f"JSON that is {_kind(found)}, not an object")
    return found


def tokens(answer: Mapping[str, Any]) -> Tokens:
    """The token counts under ``usage``; each that is no whole number from 0 to ``MAX_TOKENS`` is 0 and named."""
    usage = answer.get("usage")
    if usage is None:
        return Tokens()
    if not isinstance(usage, dict):
        return Tokens(odd=f"usage is {_kind(usage)}")
    counts = {name: usage.get(name, 0) for name in ("prompt_tokens", "completion_tokens")}
    odd = [f"{name} is {_shown(count)}" for name, count in counts.items() if not _is_count(count)]
    prompt, reply = (count if _is_count(count) else 0 for count in counts.values())
    return Tokens(prompt, reply, ", ".join(odd), _cached(usage, prompt))


def _cached(usage: Mapping[str, Any], prompt: int) -> int | None:
    details = usage.get("prompt_tokens_details")
    found = details.get("cached_tokens") if isinstance(details, dict) else None
    return int(found) if _is_count(found) and found <= prompt else None  # type: ignore[operator,arg-type]


def first_choice(answer: Mapping[str, Any], tools: bool = False) -> Answer:
    """The first choice; a null content is an empty text, unless a tool not offered is called. Raises UnreadableAnswer."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise UnreadableAnswer(f"choices is {_kind(choices)}" if choices != [] else "no choice")
    choice = _field({"choice": choices[0]}, "choice", dict)
    message = _field(choice, "message", dict)
    text, refusal = (_text(message, name) for name in ("content", "refusal"))
    finish = choice.get("finish_reason")
    if finish == "content_filter" or refusal:
        return Answer(text, refusal or "content_filter", "content_filter")
    calls = _calls(message.get("tool_calls")) if tools else ()
    if not text and not calls and (message.get("tool_calls") or message.get("function_call")):
        raise UnreadableAnswer("it calls a tool, and none was offered")
    if calls and finish in ("tool_calls", "function_call"):
        finish = "stop"
    if not isinstance(finish, str) or finish not in FINISHES:
        raise UnreadableAnswer(f"finish_reason is {_shown(finish)}")
    return Answer(text, "", "length" if finish in SPENT else "stop", calls)


def _calls(found: object) -> tuple[tuple[str, Any], ...]:
    """The calls of a message, cut to what is kept; raises UnreadableAnswer where they are not as the protocol says."""
    if found is None:
        return ()
    if not isinstance(found, list):
        raise UnreadableAnswer(f"tool_calls is {_kind(found)}")
    called = [_field(_field({"call": one}, "call", dict), "function", dict) for one in found[:MAX_CALLS]]
    return tuple(kept_call(_field(one, "name", str), _text(one, "arguments")) for one in called)


def kept_call(name: str, arguments: str) -> tuple[str, Any]:
    """What is kept of a call whose arguments are JSON in a text: both bounded."""
    return name[:MAX_NAME], _arguments(arguments)


def _arguments(text: str) -> Any:
    """The arguments of a call, which are JSON in a text; none where it is empty."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text, object_pairs_hook=once) if len(text) <= MAX_ARGUMENTS else None
    except (ValueError, RecursionError):
        found = None
    flat = isinstance(found, dict) and all(map(_is_flat, found.values()))
    return found if flat else text[:MAX_ARGUMENTS]


def _is_flat(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _text(message: Mapping[str, Any], name: str) -> str:
    return "" if message.get(name) is None else str(_field(message, name, str))


def _field(parent: Mapping[str, Any], name: str, kind: type) -> Any:
    found = parent.get(name)
    if not isinstance(found, kind):
        raise UnreadableAnswer(f"{name} is {_kind(found)}")
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS


def _shown(value: object) -> str:
    """A value of a service as a reason shows it: short, and one line."""
    return repr(value)[:40] if isinstance(value, str | int | float) else _kind(value)


def _kind(value: object) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), "null")
