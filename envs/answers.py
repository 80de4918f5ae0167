"""Reads a reply: by text first and by letter second, exactly as the package does (``_evaluate``).

The readings differ from common sense in places (a parenthesis breaks a letter, a full stop inside an option moves its
start); they are the benchmark, so they stay. ``docs/scoring.md`` tells them to users.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from envs.types import Verdict

FIRST_LETTER = 65
"""Options are lettered from ``A`` upwards by code point."""

_MARKED = re.compile(r"^.*[A-Z]\.\s*")


class Reading(NamedTuple):
    """A verdict and the index of the option that was meant, -1 for a mismatch."""

    verdict: Verdict
    chosen: int


NO_MATCH = Reading(Verdict.MISMATCH, -1)


def as_text(reply: str) -> str:
    """Return what to compare with the options: cut up to the last "capital + dot" of line one, lower case, no spaces.

    Source: ``_standardize_full_answer``.
    """
    return _MARKED.sub("", reply).lower().strip().replace(" ", "")


def as_letter(reply: str) -> str:
    """The one character before the first dot, lower case, or ``#`` if there are more (``_standardize_letter_answer``)."""
    letter = reply.split(".", 1)[0].lower().strip()
    return letter if len(letter) < 2 else "#"


@lru_cache(maxsize=65536)
def option_forms(option: str) -> tuple[str, str]:
    """``as_text`` and ``as_letter`` of an option, which policies reply again and again."""
    return as_text(option), as_letter(option)


class OptionTable(NamedTuple):
    """One side's options as two look-up tables, built once per list of options."""

    texts: dict[str, Reading]
    letters: dict[str, Reading]

    def read(self, text: str, letter: str) -> Reading:
        """The reading of a reply given as ``as_text`` and ``as_letter`` see it."""
        return self.texts.get(text) or self.letters.get(letter) or NO_MATCH


@lru_cache(maxsize=65536)
def option_table(options: tuple[str, ...], correct: tuple[str, ...], shift: int) -> OptionTable:
    """Tables for ``options`` of which ``correct`` are right, lettered from ``shift`` on.

    Equal texts and equal letters mean the first option that has them, and are right if any right option has them.
    """
    right_texts = {as_text(option) for option in correct}
    right_letters = {_letter(options.index(option) + shift) for option in correct}
    texts: dict[str, Reading] = {}
    letters: dict[str, Reading] = {}
    for index, option in enumerate(options):
        text, letter = as_text(option), _letter(index + shift)
        texts.setdefault(text, Reading(_verdict(text in right_texts), index))
        letters.setdefault(letter, Reading(_verdict(letter in right_letters), index))
    return OptionTable(texts, letters)


def letter(index: int) -> str:
    """The letter shown before option ``index``."""
    return chr(FIRST_LETTER + index)


def _letter(index: int) -> str:
    return as_letter(letter(index))


def _verdict(right: bool) -> Verdict:
    return Verdict.CORRECT if right else Verdict.WRONG
