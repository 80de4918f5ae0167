"""No user and password of an address reaches a file, a log or MLflow."""

from __future__ import annotations

import re

PINNED = r"""(?<=hf://)(?:datasets/)?[\w.-]+/[\w.-]+@[\w./-]*(?=["'\s]|$)"""
"""What follows the scheme of data of the Hub at a revision: its @ ends no password."""


def public(text: str) -> str:
    """The text without the user and password of an address; in doubt, more of the line is hidden, up to its last ``@``."""
    return re.sub(rf"//(?!{PINNED})[^\n]*@", "//***@", text)
