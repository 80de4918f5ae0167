"""Makes texts of models and data files safe for a page: they are escaped or inert JSON, and nothing in them is hidden.

The template escapes HTML. This module makes control characters visible, data safe inside a ``script`` element, and long texts
short, with their length.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from actors.text.printable import spell_invisible

LONGEST_NAME = 200
"""Most characters of a name or a reason that a table shows."""
_INERT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def visible(text: Any, longest: int = LONGEST_NAME) -> str:
    """Return the text on one line, cut if too long, with invisible characters as code points (``U+202E``)."""
    raw = str(text)
    line = spell_invisible(raw[:longest])
    return line if len(raw) <= longest else f"{line}… ({len(raw):,} characters)"


def cut(text: str, longest: int) -> tuple[str, int]:
    """Return the text, cut if it is too long, and its full length; 0 if nothing was cut."""
    return (text, 0) if len(text) <= longest else (text[:longest], len(text))


def inert(content: Mapping[str, Any]) -> str:
    """Return JSON that cannot end its ``script`` element: ASCII without ``<``, ``>`` and ``&``, equal bytes for equal content."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_INERT)


def policy_hash(text: str) -> str:
    """Return the hash of a page's own style or script for its Content Security Policy (level 2, section 'hash')."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
