"""Combinations that the protocol ``tools`` cannot play."""

from __future__ import annotations

from envs.tool_calls import FUNCTIONS
from envs.types import Mode
from sweeps.conditions import Condition


def uncallable_reason(backend: str, scenario: str, condition: Condition) -> str:
    """Why this is no cell of tool calls, or an empty string; every condition that asks each turn afresh is one."""
    if scenario not in FUNCTIONS:
        return f"tool calls are of the paper's scenarios; {scenario} says no functions"
    if backend == "human":
        return "a person chooses options and calls no functions"
    kinds = {
        "shows earlier turns": condition.history,
        "shows solved examples": condition.shots > 0,
        "shows suggestions of other scenarios": condition.mode is Mode.RANDOM,
        "asks no suggestions": condition.every_frame,
        "writes the options itself": bool(condition.template),
        "reads letters leniently": condition.lenient,
    }
    reason = next((kind for kind, holds in kinds.items() if holds), "")
    return f"{condition.name} does not exist for tool calls: it {reason}" if reason else ""
