"""Makes text of services, models and data files safe to show: no raw control character reaches a terminal, log or page.

Each becomes a visible escape: ``\x1b`` in printed lines, ``⟨U+001B⟩`` on a page.
"""

import re
import sys
from collections.abc import Sequence

COLOR = re.compile(r"\x1b\[[0-9;]*m")
"""Escape sequences that color a terminal's text (ECMA-48, SGR)."""
CONTROLS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # reorder the text around them (UAX 9)
    "\u2028\u2029\ud800-\udfff"  # line and paragraph separators; lone surrogates, which UTF-8 cannot encode
)
BLANKS = (  # print nothing
    "\t\n\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
FORMULA = r"^([\s\ufeff\u200b-\u200f\u2060]*[=+\-@＝＋－＠]|[\t\r\n])"
"""Beginning of a text that spreadsheets compute (OWASP, "CSV Injection"); some skip white and invisible space."""
LONGEST_ERROR = 300
"""Most characters of an error on one line, for a table or a part of a sentence."""
UNSAFE = re.compile(f"[{CONTROLS}]")
HIDDEN = re.compile(f"[{CONTROLS}{BLANKS}]")
"""Characters that are invisible, or change the order of the others."""


def printable(text: str) -> str:
    """Return the text with control and reordering characters escaped; newlines and tabs stay."""
    return UNSAFE.sub(_escape, text.replace("\r\n", "\n"))


def say(text: str) -> None:
    """Print a text on standard error at once, printable."""
    print(printable(text), file=sys.stderr, flush=True)


def strip_colors(text: str) -> str:
    """Return the text of a log without the colors that engines add."""
    return COLOR.sub("", text)


def one_line(text: str) -> str:
    """Return the text printable and on one line, with each run of white space as one space."""
    return printable(" ".join(text.split()))


def spell_invisible(text: str, keep: str = "") -> str:
    """Return the text with each invisible character as ``⟨U+202E⟩``, except those in ``keep``."""
    return HIDDEN.sub(lambda match: match[0] if match[0] in keep else f"⟨U+{ord(match[0]):04X}⟩", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def list_first(texts: Sequence[str], most: int = 3, separator: str = ", ") -> str:
    """Return the first texts and the number of the others: ``a, b, c and 2 more``, or ``a; b; c; and 2 more``."""
    others = len(texts) - most
    rest = f"{separator.strip(', ')} and {others:,} more" if others > 0 else ""
    return separator.join(texts[:most]) + rest


def error_text(problem: BaseException) -> str:
    """Return an error's message on one line, or its class if the message is empty."""
    return (one_line(str(problem)) or type(problem).__name__)[:LONGEST_ERROR]
