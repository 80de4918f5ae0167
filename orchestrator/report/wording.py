"""Numbers as parts of a sentence: shares, signed differences, counts with their noun.

No false 0% or 100%, a minus sign for a minus, and ``1 model``, never ``1 models``.
"""

from __future__ import annotations

MINUS = "−"


def share(part: int, whole: int) -> str:
    """Percent without a false 0 or 100."""
    if not whole:
        return "0%"
    value = 100 * part / whole
    if 0 < value < 0.1:
        return "<0.1%"
    return f"{min(value, 99.9):.1f}%" if part < whole else "100%"


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign as a sign; what rounds to nothing has none."""
    text = f"{value:+,.{digits}f}"
    return text.replace("-", MINUS) if any(digit in text for digit in "123456789") else text[1:]


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 model``, ``2,000 models``; the plural is given where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
