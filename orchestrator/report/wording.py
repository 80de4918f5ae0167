"""Signed differences as parts of a sentence."""

MINUS = "−"


def format_signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign; a value that rounds to 0 has no sign."""
    text = f"{value:+,.{digits}f}"
    return text.replace("-", MINUS) if any(digit in text for digit in "123456789") else text[1:]
