"""Reads a reply by text first and by letter second, exactly as the package does (``_evaluate``).

Some readings are surprising (a parenthesis breaks a letter, a period inside an option moves its start), but they are the
benchmark's; ``docs/scoring.md`` explains them.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from envs.types import Verdict

FIRST_LETTER = 65
"""Options are lettered from ``A`` upwards by code point."""

_MARKED = re.compile(r"^.*[A-Z]\.\s*")


class Reading(NamedTuple):
    """A verdict and the index of its option, -1 for a mismatch."""

    verdict: Verdict
    chosen: int


NO_MATCH = Reading(Verdict.MISMATCH, -1)


def as_text(reply: str) -> str:
    """Return the text that is compared with the options: lower case without spaces, after the first line's last marked letter.

    A marked letter is a capital and a dot. Source: ``_standardize_full_answer``.
    """
    return _MARKED.sub("", reply).lower().strip().replace(" ", "")


def as_letter(reply: str) -> str:
    """Return the character before the first dot in lower case, ``#`` if there are several (``_standardize_letter_answer``)."""
    letter = reply.split(".", 1)[0].lower().strip()
    return letter if len(letter) < 2 else "#"


class OptionTable(NamedTuple):
    """One side's options as two lookup tables."""

    texts: dict[str, Reading]
    letters: dict[str, Reading]

    def read(self, text: str, letter: str) -> Reading:
        """Return the reading of a reply, given by its ``as_text`` and ``as_letter``."""
        return self.texts.get(text) or self.letters.get(letter) or NO_MATCH


@lru_cache(maxsize=65536)
def option_table(options: tuple[str, ...], correct: tuple[str, ...], shift: int) -> OptionTable:
    """Return the lookup tables of ``options``; ``correct`` are the right ones, and ``shift`` is the index of the first letter.

    A text or letter that several options share is read as the first of them, and is correct if any of them is.
    """
    texts = [as_text(option) for option in options]
    letters = [as_letter(letter(index + shift)) for index in range(len(options))]
    right = [options.index(option) for option in correct]
    return OptionTable(_readings(texts, {texts[i] for i in right}), _readings(letters, {letters[i] for i in right}))


def named_indices(reply: str, options: tuple[str, ...], categories: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of what a reply names, at most one on each side; categories follow the options."""
    text, mark, first = as_text(reply), as_letter(reply), len(options)
    tables = (0, option_table(options, (), 0)), (first, option_table(categories, (), first))
    return tuple(start + chosen for start, table in tables if (chosen := table.read(text, mark).chosen) >= 0)


def _readings(keys: list[str], right: set[str]) -> dict[str, Reading]:
    readings: dict[str, Reading] = {}
    for index, key in enumerate(keys):
        readings.setdefault(key, Reading(Verdict.CORRECT if key in right else Verdict.WRONG, index))
    return readings


def letter(index: int) -> str:
    return chr(FIRST_LETTER + index)
