"""The engine options and packages that an entry may name, by whether they can change an answer or run code.

Engines accept names of classes, kernels and repositories in many options, and run what they name: an entry with an option
outside ``SAFE`` must say ``unsafe_options = true``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sweeps.values import read_table

_OPTIONS = read_table("engine_options.toml")
SPEED_ONLY = frozenset((*_OPTIONS["vllm"]["speed"], *_OPTIONS["transformers"]["speed"], "swap_space"))
"""Options that only change speed, memory, and what fits; any other may change answers and is part of the key."""
SAFE = {name: frozenset((*_OPTIONS[name]["speed"], *_OPTIONS[name]["safe"])) for name in ("vllm", "transformers")}
"""Backend -> options that cannot run code, with the values of ``choices`` there."""


def unsafe_options(backend: str, options: Mapping[str, Any], processor: Mapping[str, Any]) -> list[str]:
    """Return the keys, as in a sweep file, of a model's options that could run unchecked code."""
    if backend not in SAFE:
        return []
    engine = [f"options.{name}" for name, value in options.items() if not _is_safe(name, value, SAFE[backend])]
    return engine + [f"processor.{name}" for name, value in processor.items() if not _is_number(name, value)]


def _is_safe(name: str, value: Any, safe: frozenset[str]) -> bool:
    choices = _OPTIONS["choices"]
    return name in safe and (name not in choices or (isinstance(value, str | int) and value in choices[name]))


def _is_number(name: str, value: Any) -> bool:
    """Return True for numbers, and tables or lists of them: a processor needs nothing else, and text may name code."""
    if isinstance(value, Mapping):
        return all(_is_number(key, inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(_is_number("", inner) for inner in value)
    return name != "trust_remote_code" and isinstance(value, int | float)


# -- packages in versions of its own --------------------------------------------------------------------------------------
SHARED = frozenset({"ray", "proactive-sweep"})
"""Packages that workers must have in the driver's version, because the driver sends them objects of these packages."""


def wrong_requirement(requirements: Sequence[str], unsafe: bool) -> str:
    """Return why a model cannot have these requirements; empty if it can. ``unsafe`` admits direct addresses."""
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            unread = "options, files and paths are not read (PIP_INDEX_URL and PIP_FIND_LINKS name other indexes)"
            return f'requirements: {text!r} is no requirement such as "transformers==5.18.0"; {unread}'
        if requirement.url and not unsafe:
            remedy = "name a release, or write unsafe_options = true"
            return f"requirements: {text!r} is installed from an address that nobody checked; {remedy}"
        if canonicalize_name(requirement.name) in SHARED:
            return f"requirements: {text!r} must have the same version on driver and workers; leave it out"
    return ""


def requirement_names(requirements: Sequence[str]) -> tuple[str, ...]:
    """Return the names of valid requirements."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)
