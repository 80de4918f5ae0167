"""Errors as one short printable line."""

from actors.text.printable import error_text, first_line


def test_a_message_is_one_printable_line():
    problem = ValueError("\n  a\x1b[31m  b\n\tc\n")

    assert error_text(problem) == "a\\x1b[31m b c" and first_line(problem) == "a\\x1b[31m b"
    assert error_text(KeyError()) == first_line(KeyError()) == "KeyError"
    assert first_line(ValueError(" \n \n")) == error_text(ValueError(" \n ")) == "ValueError"
    assert len(error_text(ValueError("x" * 1_000))) == len(first_line(ValueError("x" * 1_000))) == 300
