"""Nouns with their counts, for the messages of every room."""


def pluralize(number: int, noun: str) -> str:
    """Return ``1 model`` or ``2,000 models``."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"
