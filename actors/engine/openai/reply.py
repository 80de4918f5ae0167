"""Parses a service's chat completions: untrusted JSON, validated before use.

JSON that is not an answer raises ``UnreadableAnswer``; an invalid token count becomes 0 and is described.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs.tool_calls import reject_duplicates

MAX_TOKENS = 10**9
"""More than any model reads or writes at once."""
FINISHES = frozenset(("stop", "length", "eos_token", "end_turn", "stop_sequence", "max_tokens"))
"""``finish_reason`` of a finished reply: the first two are OpenAI's and vLLM's, the others TGI's and Anthropic's."""
TRUNCATED = ("length", "max_tokens")
"""``finish_reason`` of a reply that reached its token limit."""
MAX_CALLS, MAX_NAME, MAX_ARGUMENTS = 16, 100, 10_000
"""Most function calls that are stored of a reply, and most characters of a call's name and of its arguments."""
MAX_SHOWN = 40
"""Maximum characters of a service's value in a message."""


class UnreadableAnswer(ValueError):
    """JSON that is not an answer; the message is the reason."""


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
    invalid: str = ""
    """Description of the invalid counts; empty if all are valid."""
    cached: int | None = None
    """Prompt tokens from the service's cache; None if it does not report them, or reports more than the prompt has."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The first choice of a completion."""

    text: str
    refusal: str
    """The service's reason for declining; empty if it answers."""
    finish: str
    """``stop``, ``length`` or ``content_filter``."""
    calls: tuple[tuple[str, Any], ...] = ()
    """Name and arguments of each function call; arguments that are not a flat object stay text."""


def parse_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a response; raises UnreadableAnswer for other JSON, and ValueError for other content."""
    try:
        answer = json.loads(content)
    except RecursionError:
        raise UnreadableAnswer("JSON nested too deep") from None
    if not isinstance(answer, dict):
        raise UnreadableAnswer("JSON that is not an object")
    return answer


def validate(model: type[Model], fields: object) -> Model:
    """Return the fields as an instance of ``model``; raises UnreadableAnswer with the first problem."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join(map(str, problem["loc"])) or "answer"
        raise UnreadableAnswer(f"{name}: {problem['msg']}") from None


def read_usage(answer: Mapping[str, Any]) -> Tokens:
    """Return the token counts of ``usage``; one that is not an integer from 0 to ``MAX_TOKENS`` becomes 0 and is described."""
    usage = answer.get("usage")
    if usage is None:
        return Tokens()
    try:
        counts, invalid = _Usage.model_validate(usage), ""
    except ValidationError as error:
        if not isinstance(usage, dict):
            return Tokens(invalid="usage is not an object")
        values = {str(problem["loc"][0]): problem["input"] for problem in error.errors(include_url=False)}
        invalid = ", ".join(f"{name} is {_shorten(value)}" for name, value in values.items())
        counts = _Usage.model_validate({name: count for name, count in usage.items() if name not in values})
    return Tokens(counts.prompt_tokens, counts.completion_tokens, invalid, _cached_tokens(usage, counts.prompt_tokens))


def _cached_tokens(usage: Mapping[str, Any], prompt: int) -> int | None:
    try:
        cached = _CachedTokens.model_validate(usage.get("prompt_tokens_details")).cached_tokens
    except ValidationError:
        return None
    return cached if cached <= prompt else None


def parse_first_choice(answer: Mapping[str, Any], tools: bool = False) -> Choice:
    """Return the first choice; raises UnreadableAnswer if it is not a chat completion.

    ``tools``: the request offered functions. Null content becomes an empty text; without ``tools``, a reply that has no text but
    calls a function raises UnreadableAnswer, too.
    """
    choice = validate(_Choice, validate(_Completion, answer).choices[0])
    message, finish = choice.message, choice.finish_reason
    text = message.content or ""
    if finish == "content_filter" or message.refusal:
        return Choice(text, message.refusal or "content_filter", "content_filter")
    calls = _read_calls(message.tool_calls) if tools else ()
    if not text and not calls and (message.tool_calls or message.function_call):
        raise UnreadableAnswer("it calls a tool, but the request offered no tools")
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
    """Return a call's name and arguments, both bounded; the arguments become an object if their JSON text is a flat one."""
    text, values = arguments[:MAX_ARGUMENTS], None
    with suppress(ValueError, RecursionError):
        if not arguments.strip():
            values = {}
        elif len(arguments) <= MAX_ARGUMENTS:
            values = json.loads(text, object_pairs_hook=reject_duplicates)
    is_flat = isinstance(values, dict) and all(
        value is None or isinstance(value, str | int | float) for value in values.values()
    )
    return name[:MAX_NAME], values if is_flat else text


def _shorten(value: object) -> str:
    return repr(value)[:MAX_SHOWN] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
