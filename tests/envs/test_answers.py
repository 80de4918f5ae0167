"""A reply is read by text first and by letter second, in the words of the package."""

import pytest

from envs.answers import Reading, as_letter, as_text, letter, option_table
from envs.types import Verdict

RIGHT, WRONG, MISMATCH = Verdict.CORRECT, Verdict.WRONG, Verdict.MISMATCH


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Banana.", "banana."),
        ("A. Banana.", "banana."),
        (" I say C.\t Move IT up. ", "moveitup."),
        ("It is A. Or B. Cup\nC. Dog", "cup\nc.dog"),
        ("first line\nB. Cup", "firstline\nb.cup"),
        ("1. Cup", "1.cup"),
        ("", ""),
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


def test_options_are_lettered_from_a_upwards():
    assert [letter(index) for index in (0, 1, 2, 25)] == ["A", "B", "C", "Z"]


def read(reply, options=("Cup.", "Dog.", "cup."), correct=("Dog.",), shift=0):
    return option_table(options, correct, shift).read(as_text(reply), as_letter(reply))


def test_text_goes_before_letter_and_the_first_of_equals_is_meant():
    assert read("Dog.") == Reading(RIGHT, 1)
    assert read("B") == Reading(RIGHT, 1)
    assert read("A. Dog.") == Reading(RIGHT, 1), "the text says what was meant"
    assert read("B. CUp.") == Reading(WRONG, 0)
    assert read("C") == Reading(WRONG, 2)
    assert read("D") == read("") == read("Cup") == Reading(MISMATCH, -1)


def test_equal_texts_are_right_if_any_right_option_has_them_and_letters_go_by_place():
    assert read("cup.", correct=("cup.",)) == Reading(RIGHT, 0)
    assert read("A", correct=("cup.",)) == Reading(WRONG, 0)
    assert read("C", correct=("cup.",)) == Reading(RIGHT, 2)


def test_letters_of_categories_follow_those_of_the_suggestions():
    assert read("C", shift=2) == Reading(WRONG, 0)
    assert read("D", shift=2) == Reading(RIGHT, 1)
    assert read("A", shift=2) == Reading(MISMATCH, -1)
