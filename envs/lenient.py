"""Lenient reading: more tolerant rules for what a reply chose; no score uses them unless a condition says so.

Only a reply that the benchmark could not parse is read again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envs import SCENARIOS
from envs.answers import FIRST_LETTER, letter
from envs.types import Action, Sample, State

LONGEST = 4_000
"""Characters that are read: a reply may be a megabyte."""
LETTERS = 26

_WRAPPED = re.compile(r"\W{0,8}([A-Za-z])\W{0,8}", re.ASCII)
"""A letter alone, whatever stands round it: ``(A)``, ``**B**``, ``[c].``."""
_LEADING = re.compile(r"[^\w\s]{0,8}([A-Z])\s{0,2}(?:[).:\]*]|-\s)")
"""A capital with its mark before the text: ``B) Rewind the video.``, ``**C**: ...``."""
_ANNOUNCED = re.compile(
    r"\b(?:answer|option|choice|choose|select|pick)\b(?:\s+(?:is|would be|option|letter|choice))*"
    r"[\s:*\"'`(\[{$]{1,8}([A-Z])(?![\w'])(?!\W{0,4}\s(?:or|and)\s|\s{0,2}[/,&]\s{0,2}[A-Z]\b)"
)
"""``Answer: C``, ``The answer is D``, ``I choose option (B)``."""
_LISTED = re.compile(r"(?<![\w'])([A-Z])[).:]")
"""Every capital with a mark: a reply that repeats several options chooses none."""
_NOISE = re.compile(r"[^a-z0-9]+")


def lenient(reply: str, shown: int = LETTERS, texts: Sequence[str] = ()) -> int | None:
    """The index of the option that a forgiving reader takes a reply for, or None; ``shown`` options were lettered.

    In order: a letter alone in any wrapping, a capital with its mark at the start, a letter announced as the answer, the
    text of one of ``texts`` but for case and punctuation. Two different announced letters name nothing.
    """
    text = reply[:LONGEST].strip()
    if alone := _WRAPPED.fullmatch(text):
        return _index(alone[1], shown)
    if leading := _LEADING.match(text):
        return _index(leading[1], shown) if len(set(_LISTED.findall(text))) < 2 else None
    announced = {_index(found, shown) for found in _ANNOUNCED.findall(_capitalless(text))}
    if announced:
        return announced.pop() if len(announced) == 1 else None
    return _by_text(text, texts)


def forgiven(sample: Sample, state: State, reply: str) -> str:
    """The letter that a forgiving reader takes an unparsable reply for; any other reply as it stands."""
    game = SCENARIOS[sample.scenario]
    _, turn = game.step(sample, state, reply)
    if turn.action is not Action.UNPARSABLE:
        return reply
    view = game.view(sample, state)
    options = (*view.options, *view.categories)
    index = lenient(reply, len(options), options)
    return reply if index is None else letter(index)


def _index(found: str, shown: int) -> int | None:
    index = ord(found.upper()) - FIRST_LETTER
    return index if index < min(shown, LETTERS) else None


def _capitalless(text: str) -> str:
    """Words in lower case, letters that stand alone as they were: ``The Answer Is D`` -> ``the answer is D``."""
    return re.sub(r"\w{2,}", lambda word: word[0].lower(), text)


def _by_text(text: str, texts: Sequence[str]) -> int | None:
    meant = _plain(text)
    found = [index for index, option in enumerate(texts) if meant and _plain(option) == meant]
    return found[0] if len(found) == 1 else None


def _plain(text: str) -> str:
    return _NOISE.sub(" ", text.lower()).strip()
