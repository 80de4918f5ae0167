"""Makes text of services, models and data files safe to print: no control character reaches a terminal or a log.

Each becomes its visible escape (``\\x1b``), so that nothing is hidden; tab and newline stay.
"""

from __future__ import annotations

import re

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What colours a terminal's text (ECMA-48, SGR): left out, for engines colour their logs."""
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # reorder the text around them (UAX 9)
    "\u2028\u2029\ud800-\udfff]"  # line and paragraph separators; halves of a pair, which no encoding has
)


def printable(text: str) -> str:
    """The text with control and reordering characters escaped; newlines and tabs stay."""
    return UNSAFE.sub(_escape, COLOUR.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """The same on one line, runs of white space as one space."""
    return printable(" ".join(text.split()))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
