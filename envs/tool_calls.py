"""The game of multiple choice played by function calls: which functions a state offers, and which option a call stands for.

A call that is read becomes the option that multiple choice shows, as text, and what happens then is that game's own
transition. A malformed call becomes the empty reply, which names no option: it ends the episode as an unreadable letter does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from envs import SCENARIOS
from envs.answers import as_letter, as_text, letter, option_table
from envs.openended import strip_thinking
from envs.scenario import suggestions
from envs.tool_wording import ABSTAIN, ANSWER, ANSWERS, CATEGORY
from envs.types import Move, Sample, State, View

LONGEST = 20_000
"""Characters of a reply that are read; no call is as long."""

_CAMERA = dict.fromkeys((Move.LEFT, Move.RIGHT, Move.UP, Move.DOWN), ("move_camera", "direction"))
_REPAIRS = (
    Move.BRIGHTNESS, Move.CONTRAST, Move.SATURATION, Move.DEBLUR, Move.DENOISE, Move.DECOMPRESS, Move.RESOLUTION,
    Move.ARTIFACTS,
)  # fmt: skip
_VIDEO = {Move.REWIND: ("rewind", ""), Move.WAIT: ("wait", "")}
FUNCTIONS: Mapping[str, Mapping[Move, tuple[str, str]]] = {
    "ROD": dict.fromkeys((Move.LEFT, Move.RIGHT), ("move_blocks", "direction")),
    "VSOD": _VIDEO,
    "MVP-N": {Move.ROTATE: ("rotate", "")},
    "IN-C": dict.fromkeys(_REPAIRS, ("enhance_image", "operation")),
    "QD": {Move.DETAIL: ("add_details", "")},
    "CIT": _VIDEO,
    "COCO": {**_CAMERA, Move.ZOOM: ("move_farther", "")},
}
"""Scenario -> move -> the function that asks for it, and the parameter whose value is the move's name, if it has one."""


class Call(NamedTuple):
    """One function call."""

    name: str
    arguments: Mapping[str, Any]


class Function(NamedTuple):
    """A function as a model is told of it; at most one parameter, a text out of a list."""

    name: str
    description: str
    parameter: str = ""
    values: tuple[str, ...] = ()


class Fault(StrEnum):
    """The fault of a malformed call."""

    NO_CALL = "no call"
    SEVERAL = "several calls"
    UNREADABLE = "unreadable"
    """JSON that cannot be read, or that is no call."""
    UNKNOWN = "unknown function"
    ARGUMENTS = "wrong arguments"
    NOT_OFFERED = "not offered"
    """A call that the scenario has, but not at this state."""


def offered_calls(sample: Sample, state: State, view: View) -> list[tuple[Call, str]]:
    """Every call that can be made, and the option or category it stands for, in the order of multiple choice.

    Where two suggestions shown stand for one move, the one that counts now is meant.
    """
    return calls_for_view(
        sample.scenario, view, SCENARIOS[sample.scenario].askable(sample, state) if view.options else ()
    )


def calls_for_view(scenario: str, view: View, asks: Sequence[str] = ()) -> list[tuple[Call, str]]:
    """The same from what is shown; ``asks`` are the suggestions that count."""
    shown = [(_asking(scenario, option, view.options), option) for option in view.options]
    found: list[tuple[Call, str]] = []
    for call, option in shown:
        same = [other for mine, other in shown if mine == call]
        if all(call != mine for mine, _ in found):
            found.append((call, next((other for other in same if other in asks), option)))
    return [*found, *((Call(ANSWER, {CATEGORY: name}), full) for name, full in _plain(view.categories).items())]


def functions(calls: Sequence[tuple[Call, str]]) -> tuple[Function, ...]:
    """The functions behind calls that are offered, each once; what a suggestion's does is told by its own text."""
    made: list[Function] = []
    for name in dict.fromkeys(call.name for call, _ in calls):
        mine = [(call.arguments, text) for call, text in calls if call.name == name]
        parameter = next(iter(mine[0][0]), "")
        values = tuple(arguments[parameter] for arguments, _ in mine) if parameter else ()
        told = [f"{value}: {text}" for value, (_, text) in zip(values, mine, strict=True)] if values else [mine[0][1]]
        made.append(Function(name, ANSWERS if name == ANSWER else " ".join(told), parameter, values))
    return tuple(made)


def parse_call(reply: str) -> Call | Fault:
    """The one call of a reply, whose function need not exist; thoughts before it are passed over (``envs.openended``).

    Three forms: ``name(parameter="value")``, the JSON object ``{"name": ..., "arguments": {...}}``, and what a service sent
    (``encode_calls``). Anything beside the call makes it none.
    """
    text = reply.strip() if reply.startswith(_SENT) else (strip_thinking(reply) or "").strip()
    if not text or len(text) > LONGEST:
        return Fault.UNREADABLE if text else Fault.NO_CALL
    if text[0] in "{[":
        return _from_json(text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    calls = [call for line in lines if (call := _from_line(line)) is not None]
    if len(calls) < len(lines):
        return Fault.NO_CALL
    return calls[0] if len(calls) == 1 else Fault.SEVERAL


def called_option(view: View, calls: Sequence[tuple[Call, str]], reply: str) -> str:
    """The option or category that a reply's call stands for, of those offered, as multiple choice reads it, or an empty text."""
    call = parse_call(reply)
    return next((_naming(view, option) for known, option in calls if known == call), "")


def find_fault(scenario: str, reply: str) -> Fault:
    """Return the fault of a reply that ``called_option`` found malformed."""
    call = parse_call(reply)
    if isinstance(call, Fault):
        return call
    known = [*_every(scenario), Call(ABSTAIN, {})]
    if call in known:
        return Fault.NOT_OFFERED
    return Fault.ARGUMENTS if call.name in (ANSWER, *(one.name for one in known)) else Fault.UNKNOWN


def write_call(calls: Sequence[tuple[Call, str]], option: str) -> str:
    """An option as a line that calls for it; what is no option stays as it is."""
    call = next((call for call, text in calls if text == option), None)
    return option if call is None else call_line(call)


def call_line(call: Call) -> str:
    """``move_blocks(direction="left")``."""
    given = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(given)})"


def encode_calls(calls: Sequence[tuple[str, Any]], text: str) -> str:
    """Return the calls of a service or parser, names and arguments, as the text that is stored and ``parse_call`` reads."""
    told = {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    return json.dumps(told | ({"content": text} if text else {}), ensure_ascii=False)


_SENT = '{"tool_calls": ['
"""The first characters of ``encode_calls``: thoughts beside such calls are a text inside it."""


def _asking(scenario: str, option: str, shown: tuple[str, ...]) -> Call:
    """The call that stands for a suggestion, or for the abstention."""
    if option not in suggestions(shown):
        return Call(ABSTAIN, {})
    return _moving(scenario, SCENARIOS[scenario].move(option))


def _moving(scenario: str, move: Move) -> Call:
    name, parameter = FUNCTIONS[scenario][move]
    return Call(name, {parameter: move.value} if parameter else {})


def _every(scenario: str) -> Iterator[Call]:
    return (_moving(scenario, move) for move in FUNCTIONS[scenario])


def _plain(categories: tuple[str, ...]) -> dict[str, str]:
    """Categories by what they are called: without the final dot that the benchmark writes, where that keeps them apart."""
    plain = {category.removesuffix("."): category for category in categories}
    return plain if len(plain) == len(set(categories)) else {category: category for category in categories}


def _naming(view: View, option: str) -> str:
    """A reply that multiple choice reads as this option and as no other: its text, or where that is ambiguous its letter."""
    shown = (*view.options, *view.categories)
    index, first = shown.index(option), len(view.options)
    wanted = (index, -1) if index < first else (-1, index - first)
    for reply in (option, letter(index), f"{letter(index)}. {option}"):
        text, mark = as_text(reply), as_letter(reply)
        sides = option_table(view.options, (), 0), option_table(view.categories, (), first)
        if tuple(one.read(text, mark).chosen for one in sides) == wanted:
            return reply
    return option


# -- the written forms --------------------------------------------------------------------------------------------------
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,63})\((.*)\)")
_ARGUMENT = re.compile(r"""\s*([A-Za-z_][A-Za-z0-9_]{0,63})\s*=\s*("(?:[^"\\]|\\.)*"|'[^'\\]*')\s*""")


def _from_line(text: str) -> Call | None:
    """The call of a line; arguments that cannot be read are none that a function has."""
    if (found := _LINE.fullmatch(text)) is None:
        return None
    name, given = found.groups()
    if not given.strip():
        return Call(name, {})
    argument = _ARGUMENT.fullmatch(given)
    value = None if argument is None else _quoted(argument[2])
    return Call(name, {"": None} if argument is None else {argument[1]: value})


def _quoted(text: str) -> str | None:
    if text[0] == "'":
        return text[1:-1]
    try:
        return str(json.loads(text))
    except ValueError:
        return None


def _from_json(text: str) -> Call | Fault:
    try:
        found = json.loads(text, object_pairs_hook=reject_duplicates)
    except (ValueError, RecursionError):
        lines = [one for one in text.split("\n") if one.strip()]
        return Fault.SEVERAL if len(lines) > 1 and all(_is_call(one) for one in lines) else Fault.UNREADABLE
    calls = found.get("tool_calls") if isinstance(found, dict) and "tool_calls" in found else found
    if isinstance(calls, list):
        if len(calls) != 1:
            return Fault.SEVERAL if calls else Fault.NO_CALL
        return _as_call(calls[0]) if calls is not found else Fault.UNREADABLE
    return _as_call(calls)


def _is_call(text: str) -> bool:
    try:
        return isinstance(_as_call(json.loads(text, object_pairs_hook=reject_duplicates)), Call)
    except (ValueError, RecursionError):
        return False


def _as_call(found: Any) -> Call | Fault:
    if not isinstance(found, dict) or found.keys() != {"name", "arguments"}:
        return Fault.UNREADABLE
    name, arguments = found["name"], found["arguments"]
    return Call(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else Fault.UNREADABLE


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; ValueError where a name is there twice, for then nobody knows which is meant."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name is there twice")
    return made
