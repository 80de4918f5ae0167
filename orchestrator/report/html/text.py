"""Makes texts of models and data files fit for a page whose template escapes them: nothing is hidden, long ones are cut."""

from base64 import b64encode
from hashlib import sha256
from typing import Any

from actors.text.printable import spell_invisible

LONGEST_NAME = 200
"""Most characters of a name or a reason that a table shows."""


def visible(text: Any, longest: int = LONGEST_NAME) -> str:
    """Return the text on one line, cut if too long, with invisible characters as code points (``U+202E``)."""
    raw = str(text)
    line = spell_invisible(raw[:longest])
    return line if len(raw) <= longest else f"{line}… ({len(raw):,} characters)"


def policy_hash(text: str) -> str:
    """Return the hash of a page's own style or script for its Content Security Policy (level 2, section 'hash')."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
