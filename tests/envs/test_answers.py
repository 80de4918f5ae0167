"""A reply is read by text first and by letter second, in the words of the package."""

import pytest

from envs.answers import Reading, as_letter, as_text, option_table
from envs.types import Verdict

RIGHT, WRONG, MISMATCH = Verdict.CORRECT, Verdict.WRONG, Verdict.MISMATCH


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Banana.", "banana."),
        (" I say C.\t Move IT up. ", "moveitup."),
        ("It is A. Or B. Cup\nC. Dog", "cup\nc.dog"),
        ("first line\nB. Cup", "firstline\nb.cup"),
    ],
)
def test_a_text_is_cut_up_to_the_last_capital_and_dot_of_line_one(reply, text):
    assert as_text(reply) == text


@pytest.mark.parametrize(
    ("reply", "read"),
    [("B", "b"), ("b.", "b"), (" C .", "c"), ("D. Cup. E.", "d"), ("AB", "#"), ("Cup", "#"), ("", ""), (".B", ""), ("(A)", "#")],
)  # fmt: skip
def test_a_letter_is_the_one_character_before_the_first_dot(reply, read):
    assert as_letter(reply) == read


def read(reply, options=("Cup.", "Dog.", "cup."), correct=("Dog.",), shift=0):
    return option_table(options, correct, shift).read(as_text(reply), as_letter(reply))


def test_text_goes_before_letter_and_the_first_of_equals_is_meant():
    assert read("Dog.") == Reading(RIGHT, 1)
    assert read("B") == Reading(RIGHT, 1)
    assert read("A. Dog.") == Reading(RIGHT, 1), "the text says what was meant"
    assert read("B. CUp.") == Reading(WRONG, 0)
    assert read("C") == Reading(WRONG, 2)
    assert read("D") == read("") == read("Cup") == Reading(MISMATCH, -1)
