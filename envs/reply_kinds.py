"""Kinds of replies that the benchmark's reading hides: lists of the options, and letters that contradict their text.

The benchmark reads a repeated list as its first or last option, so an action share includes such echoes.
"""

import re
from collections.abc import Sequence

from envs.answers import FIRST_LETTER

REPEATS_LIST, DISAGREES, NOT_OFFERED = "repeats_list", "disagrees", "not_offered"
KINDS = {
    REPEATS_LIST: "repeats the option list",
    DISAGREES: "letter and text disagree",
    NOT_OFFERED: "names what is not offered",
}
"""Kind -> its name in tables; a reply has at most one, the first that applies."""
MARKED_PATTERN = r"(?:^|\n)\W{0,4}[A-Z][*\s]{0,2}[.):]"
"""Matches a reply with a line that begins with a lettered option; every other reply has no kind."""
LONGEST = 4_000
"""Most characters read of a reply."""
_MARK = re.compile(r"(?:^|(?<=[\n.;,:!?]))\W{0,4}([A-Z])[*\s]{0,2}[.):](?!\w)")
_NOISE = re.compile(r"[^a-z0-9]+")


def reply_kind(reply: str, options: Sequence[str]) -> str:
    """Return the kind of a reply; empty for a plain answer. ``options`` are in the order of their letters."""
    text = reply[:LONGEST]
    marks = list(_MARK.finditer(text))
    if len({mark[1] for mark in marks}) > 1:
        return REPEATS_LIST
    if not marks or marks[0].start() > 0:
        return ""
    index = ord(marks[0][1]) - FIRST_LETTER
    if index >= len(options):
        return NOT_OFFERED
    spoken = _words(text[marks[0].end() :].strip().split("\n")[0])
    if not spoken or _begins(spoken, _words(options[index])):
        return ""
    others = (option for number, option in enumerate(options) if number != index)
    return DISAGREES if any(_begins(spoken, _words(option)) for option in others) else NOT_OFFERED


def leading_letter(reply: str) -> str:
    """Return the letter that a reply consists of, or begins with as in ``B. Banana``; empty if there is none."""
    match = re.match(r"^\W{0,4}([A-Z])(?:\s?[.):]|\W{0,4}$)", reply)
    return match[1] if match else ""


def _begins(spoken: str, option: str) -> bool:
    """Return True if one text begins with the other: a reply may be cut off, or say more than the option."""
    return spoken.startswith(option) or option.startswith(spoken)


def _words(text: str) -> str:
    return _NOISE.sub("", text.lower())
