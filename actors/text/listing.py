"""Lists in a sentence, cut after the first entries."""

from collections.abc import Sequence


def list_first(texts: Sequence[str], most: int = 3, separator: str = ", ") -> str:
    """Return the first texts and the number of the others: ``a, b, c and 2 more``, or ``a; b; c; and 2 more``."""
    others = len(texts) - most
    rest = f"{separator.strip(', ')} and {others:,} more" if others > 0 else ""
    return separator.join(texts[:most]) + rest
