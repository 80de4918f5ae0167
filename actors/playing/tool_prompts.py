"""Builds the question of a turn whose options are functions, sent as tools or listed in the text."""

import json
from collections.abc import Sequence

from actors.engine.backend import Message
from actors.playing.prompts import system_messages
from envs.tool_calls import Function
from envs.tool_wording import LISTED, NATIVE, WRITTEN
from envs.types import NO_PICTURE, View
from sweeps.conditions import Condition


def tool_messages(view: View, functions: Sequence[Function], condition: Condition, native: bool) -> tuple[Message, ...]:
    """Return the conversation that asks for one call; ``native`` functions are sent as tools, others listed in the text."""
    text = view.prompt + (NATIVE if native else f"{LISTED}{list_functions(functions)}{WRITTEN}")
    images = () if view.image == NO_PICTURE else (view.image,)
    return (*system_messages(condition), Message("user", text, images))


def list_functions(functions: Sequence[Function]) -> str:
    """Return the functions as text, one per line: ``- move_blocks(direction: "left" | "right"): ...``."""
    return "".join(f"- {function.name}({_parameter(function)}): {function.description}\n" for function in functions)


def _parameter(function: Function) -> str:
    values = " | ".join(json.dumps(value, ensure_ascii=False) for value in function.values)
    return f"{function.parameter}: {values}" if values else ""
