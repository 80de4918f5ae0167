"""Kinds of replies, on replies written for this test, with the options that were shown."""

import pytest

from envs.reply_kinds import DISAGREES, NOT_OFFERED, REPEATS_LIST, leading_letter, reply_kind

OPTIONS = ("I cannot answer.", "Move the blocks.", "Mug.", "Key.", "A big dog.")
LISTS = (
    "A. I cannot answer.\nB. Move the blocks.\nC. Mug.", "A. I cannot answer. B. Move the blocks.",
    "Options:\nA. Mug.\nB. Key.", "A.\nB.\nC.",
)  # fmt: skip
PLAIN = (
    "B. Move the blocks.", "B. Move the", "(B) Move the blocks", "Mug.", "B", "I cannot answer.", "", "It is so.\nB. Mug",
    "The blocks hide it.", "**D**: Key", "C. Mug, because it has a handle.", "\u0000\u202e",
)  # fmt: skip
CONTRADICTIONS = ("A. Move the blocks.", "D. Mug", "C) A big dog.")
INVENTIONS = ("G. Mug.", "B. Rotate the table.", "F.")
KINDS = {REPEATS_LIST: LISTS, "": PLAIN, DISAGREES: CONTRADICTIONS, NOT_OFFERED: INVENTIONS}


@pytest.mark.parametrize(("reply", "kind"), [(reply, kind) for kind, replies in KINDS.items() for reply in replies])
def test_kind(reply, kind):
    assert reply_kind(reply, OPTIONS) == kind


@pytest.mark.parametrize(
    ("reply", "letter"),
    [("A", "A"), ("A. Mug", "A"), ("**C**", "C"), ("(B) Key", "B"), ("A mug", ""), ("", ""), ("Mug.", "")],
)
def test_leading_letter(reply, letter):
    assert leading_letter(reply) == letter


@pytest.mark.parametrize("unit", ["A. ", "A. Mug.\n", "(", "\n", "*" * 9])
def test_a_megabyte_is_read_to_its_end(unit):
    assert reply_kind(unit * (1_000_000 // len(unit)), OPTIONS) in KINDS
