"""Escaping for the page.

No text of a model or of a data file is ever markup, and nothing in it is hidden: it is escaped text, or inert JSON.

HTML is escaped by the template; this module does what that does not: control characters are made visible, data are made
safe inside a ``script`` element, and long texts are cut, with their length.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from actors.printable import spelled

LONGEST_NAME = 200
"""Characters of a name or a reason that a table shows."""
_INERT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def visible(text: Any, longest: int = LONGEST_NAME) -> str:
    """One line in which control characters, zero-width and direction marks stand as ``U+202E``; cut where it is too long."""
    raw = str(text)
    line = spelled(raw[:longest])
    return line if len(raw) <= longest else f"{line}… ({len(raw):,} characters)"


def cut(text: str, longest: int) -> tuple[str, int]:
    """The text, or its beginning and the length of the whole; 0 where nothing was cut."""
    return (text, 0) if len(text) <= longest else (text[:longest], len(text))


def inert(content: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can leave: pure ASCII without ``<``, ``>`` and ``&``, the same bytes for equal content."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.translate(_INERT)


def policy_hash(text: str) -> str:
    """A source expression of the Content Security Policy (level 2, section 'hash') for a page's own style or script."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
