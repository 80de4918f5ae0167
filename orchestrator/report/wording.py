"""Numbers as parts of a sentence: shares and signed differences."""

MINUS = "−"


def format_share(count: int, total: int) -> str:
    """Return a percentage; only an exact 0 or 100 is written as 0% or 100%."""
    if not total:
        return "0%"
    value = 100 * count / total
    if 0 < value < 0.1:
        return "<0.1%"
    return f"{min(value, 99.9):.1f}%" if count < total else "100%"


def format_signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign; a value that rounds to 0 has no sign."""
    text = f"{value:+,.{digits}f}"
    return text.replace("-", MINUS) if any(digit in text for digit in "123456789") else text[1:]
