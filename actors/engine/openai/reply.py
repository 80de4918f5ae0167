"""Reads a service's chat completions: untrusted JSON, validated before anything uses it.

What cannot be an answer raises ``UnreadableAnswer``; an odd token count is 0 and noted, so that it never reaches the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.tool_calls import reject_duplicates

MAX_TOKENS = 10**9
"""More than any model reads or writes at once."""
FINISHES = frozenset(("stop", "length", "eos_token", "end_turn", "stop_sequence", "max_tokens"))
"""Words for a finished reply: OpenAI's and vLLM's first two, and those of TGI's and Anthropic's own endpoints."""
TRUNCATED = ("length", "max_tokens")
"""Those of a reply that used up its tokens."""
MAX_CALLS, MAX_NAME, MAX_ARGUMENTS = 16, 100, 10_000
"""Stored function calls per reply (two are one too many), and characters of a name and of arguments."""
MAX_SHOWN = 40
"""Characters of a service's value that a message shows."""


class UnreadableAnswer(ValueError):
    """JSON that is no answer; the message says what is odd."""


class Untrusted(BaseModel):
    """JSON of a service: fields without type coercion, unknown ones ignored."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Usage(Untrusted):
    prompt_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = 0
    completion_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = 0


class _CachedTokens(Untrusted):
    cached_tokens: Annotated[int, Field(ge=0)]


class _Function(Untrusted):
    name: str
    arguments: str | None = None


class _Call(Untrusted):
    function: _Function


class _Message(Untrusted):
    content: str | None = None
    refusal: str | None = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(Untrusted):
    message: _Message
    finish_reason: Any = None


class _Completion(Untrusted):
    choices: list[Any] = Field(min_length=1)


class _Calls(Untrusted):
    tool_calls: list[_Call]


Model = TypeVar("Model", bound=Untrusted)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token counts of an answer."""

    prompt: int = 0
    reply: int = 0
    odd: str = ""
    """Description of values that are no counts; empty if all are, or none came."""
    cached: int | None = None
    """Prompt tokens that the service had cached; None if it reports none, or more than there are."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The first choice of a completion."""

    text: str
    refusal: str
    """The service's reason for declining; empty if it answers."""
    finish: str
    """``stop``, ``length`` or ``content_filter``."""
    calls: tuple[tuple[str, Any], ...] = ()
    """Name and arguments of each function call; arguments that are no flat object stay the text that came."""


def parse_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a response.

    Raises:
        UnreadableAnswer: the JSON is no object, or nested too deep.
        ValueError: the content is no JSON.
    """
    try:
        answer = json.loads(content)
    except RecursionError:
        raise UnreadableAnswer("JSON nested too deep") from None
    if not isinstance(answer, dict):
        raise UnreadableAnswer("JSON that is not an object")
    return answer


def validate(model: type[Model], fields: object) -> Model:
    """Return the fields as a model; raises UnreadableAnswer with the first problem."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join(map(str, problem["loc"])) or "answer"
        raise UnreadableAnswer(f"{name}: {problem['msg']}") from None


def read_usage(answer: Mapping[str, Any]) -> Tokens:
    """Return the token counts under ``usage``; one that is no integer from 0 to ``MAX_TOKENS`` is 0 and described."""
    usage = answer.get("usage")
    if usage is None:
        return Tokens()
    try:
        counts, odd = _Usage.model_validate(usage), ""
    except ValidationError as error:
        if not isinstance(usage, dict):
            return Tokens(odd="usage is not an object")
        values = {str(problem["loc"][0]): problem["input"] for problem in error.errors(include_url=False)}
        odd = ", ".join(f"{name} is {_shorten(value)}" for name, value in values.items())
        counts = _Usage.model_validate({name: count for name, count in usage.items() if name not in values})
    return Tokens(counts.prompt_tokens, counts.completion_tokens, odd, _cached_tokens(usage, counts.prompt_tokens))


def _cached_tokens(usage: Mapping[str, Any], prompt: int) -> int | None:
    try:
        cached = _CachedTokens.model_validate(usage.get("prompt_tokens_details")).cached_tokens
    except ValidationError:
        return None
    return cached if cached <= prompt else None


def parse_first_choice(answer: Mapping[str, Any], tools: bool = False) -> Choice:
    """Return the first choice; null content is an empty text, unless a function is called that was not offered.

    Args:
        answer: the JSON object of a response.
        tools: whether the request offered functions.

    Raises:
        UnreadableAnswer: it is no chat completion.
    """
    choice = validate(_Choice, validate(_Completion, answer).choices[0])
    message, finish = choice.message, choice.finish_reason
    text = message.content or ""
    if finish == "content_filter" or message.refusal:
        return Choice(text, message.refusal or "content_filter", "content_filter")
    calls = _read_calls(message.tool_calls) if tools else ()
    if not text and not calls and (message.tool_calls or message.function_call):
        raise UnreadableAnswer("it calls a tool, and none was offered")
    if calls and finish in ("tool_calls", "function_call"):
        finish = "stop"
    if not isinstance(finish, str) or finish not in FINISHES:
        raise UnreadableAnswer(f"finish_reason is {_shorten(finish)}")
    return Choice(text, "", "length" if finish in TRUNCATED else "stop", calls)


def _read_calls(tool_calls: object) -> tuple[tuple[str, Any], ...]:
    """Return the first ``MAX_CALLS`` calls of a message; raises UnreadableAnswer."""
    if tool_calls is None:
        return ()
    first = tool_calls[:MAX_CALLS] if isinstance(tool_calls, list) else tool_calls
    functions = [call.function for call in validate(_Calls, {"tool_calls": first}).tool_calls]
    return tuple(bounded_call(function.name, function.arguments or "") for function in functions)


def bounded_call(name: str, arguments: str) -> tuple[str, Any]:
    """Return a call's name and its arguments, which come as JSON in a text; both bounded."""
    return name[:MAX_NAME], _read_arguments(arguments)


def _read_arguments(text: str) -> Any:
    """Return the arguments if they are a flat object; else the text, cut."""
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text, object_pairs_hook=reject_duplicates) if len(text) <= MAX_ARGUMENTS else None
    except (ValueError, RecursionError):
        arguments = None
    flat = isinstance(arguments, dict) and all(
        value is None or isinstance(value, str | int | float) for value in arguments.values()
    )
    return arguments if flat else text[:MAX_ARGUMENTS]


def _shorten(value: object) -> str:
    """Return a service's value, short, for a message."""
    return repr(value)[:MAX_SHOWN] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
