"""Makes text of services, models and data files safe to show: no control character reaches a terminal, a log or a page raw.

Each becomes its visible escape, so that nothing is hidden: ``\\x1b`` where lines are printed, ``⟨U+001B⟩`` on a page.
"""

from __future__ import annotations

import re

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What colours a terminal's text (ECMA-48, SGR)."""
CONTROLS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # reorder the text around them (UAX 9)
    "\u2028\u2029\ud800-\udfff"  # line and paragraph separators; halves of a pair, which no encoding has
)
BLANKS = (  # print as nothing
    "\t\n\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
UNSAFE = re.compile(f"[{CONTROLS}]")
HIDDEN = re.compile(f"[{CONTROLS}{BLANKS}]")
"""What prints as nothing, or changes the order in which the rest prints."""


def printable(text: str) -> str:
    """The text with control and reordering characters escaped; newlines and tabs stay."""
    return UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def without_colours(text: str) -> str:
    """The text of a log without its colours: engines colour their lines, and nothing is hidden with them."""
    return COLOUR.sub("", text)


def one_line(text: str) -> str:
    """The same on one line, runs of white space as one space."""
    return printable(" ".join(text.split()))


def spelled(text: str, keep: str = "") -> str:
    """The text with whatever cannot be seen as ``⟨U+202E⟩``, less the characters in ``keep``."""
    return HIDDEN.sub(lambda found: found[0] if found[0] in keep else f"⟨U+{ord(found[0]):04X}⟩", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
