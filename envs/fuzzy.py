"""Fuzzy reading: the shown option that a reply is most like, whatever it says; no score uses it.

It always chooses, as evaluations do that map each reply to the nearest option: beside the strict and the lenient reading it
shows what such an evaluation would report, wrong choices included.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from envs.lenient import read_leniently

LONGEST = 500
"""Characters that are compared: similarity takes time that grows with the square of a text."""


def nearest_option(reply: str, texts: Sequence[str]) -> int | None:
    """The index of the option that the lenient reading finds, else of the one whose text is most similar to the reply.

    Similarity is ``difflib.SequenceMatcher.ratio`` of both texts, lower case and single spaces; of equally similar options
    the first. None where the reply holds no letter or digit, or nothing was shown.
    """
    found = read_leniently(reply, len(texts), texts)
    said = _plain(reply[:LONGEST])
    if found is not None or not texts or not any(map(str.isalnum, said)):
        return found
    matcher = SequenceMatcher(None, b=said, autojunk=False)
    ratios = []
    for text in texts:
        matcher.set_seq1(_plain(text))
        ratios.append(matcher.ratio())
    return max(range(len(texts)), key=ratios.__getitem__)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
