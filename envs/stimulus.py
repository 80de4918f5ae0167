"""The benchmark's prompts: the published strings (stimulus.toml) by name, and multiple choice, which joins them."""

import tomllib
from functools import lru_cache
from pathlib import Path

_PUBLISHED = tomllib.loads(Path(__file__).with_name("stimulus.toml").read_text("utf-8"))
PROMPTS: dict[str, str] = _PUBLISHED["prompts"]
OPTIONS_FOLLOW, ONE_OPTION_ONLY = PROMPTS["OPTIONS_FOLLOW"], PROMPTS["ONE_OPTION_ONLY"]
ACCEPTED: dict[str, list[str]] = _PUBLISHED["accepted"]
"""Scenario -> all requests that count at its first state; elsewhere the sample's own count."""
ALSO_ACCEPTED: dict[str, list[str]] = _PUBLISHED["also_accepted"]
"""Scenario -> requests that count beside the sample's own."""


def multiple_choice(question: str, options: tuple[str, ...]) -> str:
    """Return the question with its lettered options, one per line (``apply_multi_choice_template``, short answer)."""
    return f"{question}{OPTIONS_FOLLOW}{lettered(options)}{ONE_OPTION_ONLY}"


@lru_cache(maxsize=65536)
def lettered(options: tuple[str, ...]) -> str:
    """Return the options, each after its letter on a line of its own."""
    return "".join(f"{chr(65 + index)}. {option}\n" for index, option in enumerate(options))
