"""Multiple choice by function calls: the functions that a state offers, and the option that a call stands for.

A valid call becomes the text of its option, which multiple choice then plays. A malformed call becomes the empty reply, which
ends the episode like an unreadable letter. The wording is ours (docs/decisions/0014-tool-calls.md); functions are described by
the benchmark's suggestions.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from envs import SCENARIOS
from envs.answers import letter, named_indices
from envs.scenario import suggestions
from envs.thoughts import strip_thinking
from envs.types import View

TOOLS_VERSION = "tools-1"
"""Part of the key of every such episode: raise it when tool_calls.toml or the reading of calls changes."""

ABSTAIN, ANSWER, CATEGORY = "abstain", "answer", "category"
"""The two functions of every scenario, and the parameter of the second."""

_TABLES = tomllib.loads(Path(__file__).with_name("tool_calls.toml").read_text("utf-8"))
TEXTS: Mapping[str, str] = _TABLES["texts"]
NATIVE = TEXTS["NATIVE"]
FUNCTIONS: Mapping[str, Mapping[str, Sequence[str]]] = _TABLES["functions"]
"""Scenario -> move -> name of its function, and of the parameter whose value is the move; empty without a parameter."""

LONGEST = 20_000
"""Most characters of a reply with a call."""


class Call(NamedTuple):
    """One function call."""

    name: str
    arguments: Mapping[str, Any]


class Function(NamedTuple):
    """A function as described to a model, with at most one parameter, a text from a list."""

    name: str
    description: str
    parameter: str = ""
    values: tuple[str, ...] = ()


def offered_calls(scenario: str, view: View, asks: Sequence[str] = ()) -> list[tuple[Call, str]]:
    """Return every possible call with its option or category, in the order of multiple choice.

    If two suggestions stand for one move, the call means the one that counts now, which is among ``asks``.
    """
    option_calls = [(_option_call(scenario, option, view.options), option) for option in view.options]
    calls: list[tuple[Call, str]] = []
    for call, option in option_calls:
        if all(call != previous for previous, _ in calls):
            counting = (text for same, text in option_calls if same == call and text in asks)
            calls.append((call, next(counting, option)))
    names = {category.removesuffix("."): category for category in view.categories}
    if len(names) < len(set(view.categories)):  # two that differ in the benchmark's final dot alone keep it
        names = {category: category for category in view.categories}
    return [*calls, *((Call(ANSWER, {CATEGORY: name}), full) for name, full in names.items())]


def functions(calls: Sequence[tuple[Call, str]]) -> tuple[Function, ...]:
    """Return the distinct functions of the calls; each is described by the texts of its suggestions."""
    distinct: list[Function] = []
    for name in dict.fromkeys(call.name for call, _ in calls):
        arguments, texts = zip(*((call.arguments, text) for call, text in calls if call.name == name), strict=True)
        parameter = next(iter(arguments[0]), "")
        values = tuple(argument[parameter] for argument in arguments) if parameter else ()
        parts = [f"{value}: {text}" for value, text in zip(values, texts, strict=True)] if values else [texts[0]]
        distinct.append(Function(name, TEXTS["ANSWERS"] if name == ANSWER else " ".join(parts), parameter, values))
    return tuple(distinct)


def parse_call(reply: str) -> Call | None:
    """Parse the only call of a reply, or return None; the function need not exist, and thoughts before it are ignored.

    Three forms: ``name(parameter="value")``, the JSON object ``{"name": ..., "arguments": {...}}``, and the output of
    ``encode_calls``. None if other text stands beside the call.
    """
    text = (reply if reply.startswith(_ENCODED) else strip_thinking(reply) or "").strip()
    if not text or len(text) > LONGEST:
        return None
    return _parse_json(text) if text[0] in "{[" else _parse_line(text)


def called_option(view: View, calls: Sequence[tuple[Call, str]], reply: str) -> str:
    """Return the multiple-choice reply that names the option or category called; empty if the call is not offered."""
    call = parse_call(reply)
    return next((_multiple_choice_reply(view, option) for offered, option in calls if offered == call), "")


def write_call(calls: Sequence[tuple[Call, str]], option: str) -> str:
    """Return an option as the line of its call; any other text unchanged."""
    return next((call_line(call) for call, text in calls if text == option), option)


def call_line(call: Call) -> str:
    """Return a call as text: ``move_blocks(direction="left")``."""
    arguments = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"


def encode_calls(calls: Sequence[tuple[str, Any]], text: str) -> str:
    """Return the calls of a service or parser as a text to store, which ``parse_call`` reads."""
    content = {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    return json.dumps(content | ({"content": text} if text else {}), ensure_ascii=False)


_ENCODED = '{"tool_calls": ['
"""Beginning of every text by ``encode_calls``; thoughts inside such a text are not removed before parsing."""


def _option_call(scenario: str, option: str, shown: tuple[str, ...]) -> Call:
    if option not in suggestions(shown):
        return Call(ABSTAIN, {})
    move = SCENARIOS[scenario].move(option)
    name, parameter = FUNCTIONS[scenario][move]
    return Call(name, {parameter: move.value} if parameter else {})


def _multiple_choice_reply(view: View, option: str) -> str:
    """Return a reply that multiple choice reads only as this option: its text or, if that is ambiguous, its letter."""
    index = (*view.options, *view.categories).index(option)
    forms = (option, letter(index), f"{letter(index)}. {option}")
    return next((form for form in forms if named_indices(form, view.options, view.categories) == (index,)), option)


# -- syntax --------------------------------------------------------------------------------------------------
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})\((.*)\)")
_ARGUMENT = re.compile(r"""\s*([A-Za-z_][A-Za-z0-9_]{0,63})\s*=\s*("(?:[^"\\]|\\.)*"|'[^'\\]*')\s*""")


def _parse_line(text: str) -> Call | None:
    """Parse a line; unreadable arguments become an argument that no function has."""
    if (match := _LINE.fullmatch(text)) is None:
        return None
    name, arguments = match.groups()
    if not arguments.strip():
        return Call(name, {})
    argument = _ARGUMENT.fullmatch(arguments)
    return Call(name, {"": None} if argument is None else {argument[1]: _unquote(argument[2])})


def _unquote(text: str) -> str | None:
    if text[0] == "'":
        return text[1:-1]
    try:
        return str(json.loads(text))
    except ValueError:
        return None


def _parse_json(text: str) -> Call | None:
    try:
        content = json.loads(text, object_pairs_hook=reject_duplicates)
    except (ValueError, RecursionError):
        return None
    match content:
        case {"tool_calls": [{"name": str(name), "arguments": dict(arguments), **rest}]} | {
            "name": str(name),
            "arguments": dict(arguments),
            **rest,
        } if not rest:
            return Call(name, arguments)
    return None


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError for a repeated name."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name occurs twice")
    return content


def write_functions(functions: Sequence[Function]) -> str:
    """Return the request for a call with one line per function: ``- move_blocks(direction: "left" | "right"): ...``."""
    lines = []
    for function in functions:
        values = " | ".join(json.dumps(value, ensure_ascii=False) for value in function.values)
        arguments = f"{function.parameter}: {values}" if values else ""
        lines.append(f"- {function.name}({arguments}): {function.description}\n")
    return TEXTS["LISTED"] + "".join(lines) + TEXTS["WRITTEN"]
