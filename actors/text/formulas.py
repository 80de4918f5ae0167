"""Protects readers of CSV files from formulas: text that a spreadsheet would compute gets an apostrophe in front."""

import re

FORMULA = r"^([\s\ufeff\u200b-\u200f\u2060]*[=+\-@＝＋－＠]|[\t\r\n])"
"""Beginning of a text that spreadsheets compute (OWASP, "CSV Injection"); some skip white and invisible space."""


def disarm(text: str) -> str:
    """Return the text as a spreadsheet shows it without computing it."""
    return f"'{text}" if re.match(FORMULA, text.lstrip("'")) else text


def rearm(text: str) -> str:
    """Return the text from which ``disarm`` made this one."""
    return text[1:] if text.startswith("'") and re.match(FORMULA, text.lstrip("'")) else text
