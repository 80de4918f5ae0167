"""Escaping for the page.

No text of a model or of a data file is ever markup, and nothing in it is hidden: it is escaped text, or inert JSON.

HTML is escaped by the template; this module does what that does not: control characters are made visible, data are made
safe inside a ``script`` element, and long texts are cut, with their length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

LONGEST_NAME = 200
"""Characters of a name or a reason that a table shows."""
HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""What prints as nothing, or changes the order in which the rest prints."""
_INERT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def visible(text: Any, longest: int = LONGEST_NAME) -> str:
    """One line in which control characters, zero-width and direction marks stand as ``U+202E``; cut where it is too long."""
    raw = str(text)
    line = HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", raw[:longest])
    return line if len(raw) <= longest else f"{line}… ({len(raw):,} characters)"


def cut(text: str, longest: int) -> tuple[str, int]:
    """The text, or its beginning and the length of the whole; 0 where nothing was cut."""
    return (text, 0) if len(text) <= longest else (text[:longest], len(text))


def inert(content: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can leave: pure ASCII without ``<``, ``>`` and ``&``, the same bytes for equal content."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_INERT)
