"""Numbers as parts of a sentence: shares, signed differences, p-values."""

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


def format_p(p: float) -> str:
    """Return a p-value with three decimals; below 0.001 as a power of ten, below 1e-6 as ``<1e-6``."""
    if p >= 0.001:
        return f"{p:.3f}"
    return "<1e-6" if p < 1e-6 else f"{p:.0e}".replace("e-0", "e-")
