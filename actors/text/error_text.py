"""An error as one short printable line, for a table or a part of a sentence."""

from actors.text.printable import one_line

LONGEST = 300
"""Characters of the line."""


def error_text(problem: BaseException) -> str:
    """Return an error's message on one line, or its class if the message is empty."""
    return (one_line(str(problem)) or type(problem).__name__)[:LONGEST]


def first_line(problem: BaseException) -> str:
    """Return the first line of an error's message that is not empty, or its class."""
    lines = (one_line(line) for line in str(problem).splitlines())
    return next(filter(None, lines), type(problem).__name__)[:LONGEST]
