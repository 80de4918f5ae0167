"""The lenient reading is right on replies that were not looked at while its rules were written."""

import json
from hashlib import sha256

import pytest

from actors.playing.prompts import LENIENT_VERSION
from envs.lenient import names_another, read_leniently
from tests.envs.lenient_score import replies, score

OPTIONS = (
    "I cannot answer this question.",
    "Move the blue blocks to the left.",
    "Skillet.",
    "Baseball.",
    "Key.",
    "Banana.",
)


@pytest.mark.parametrize(
    ("half", "precision", "recall"),
    [
        ("seen", 0.98, 0.95), ("unseen", 0.98, 0.93), ("embedded-135m", 0.98, 0.95), ("smollm2 seen", 0.92, 0.89),
        ("smollm2 unseen", 0.92, 0.88),
    ],
)  # fmt: skip
def test_replies_are_read_as_a_person_reads_them(half, precision, recall):
    """SmolLM2's at temperature 1 are half nonsense."""
    measured = score(half)

    assert measured.replies > 100 and measured.precision >= precision and measured.recall >= recall, measured.mistakes


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("\\boxed{F}", 5), ("F, because it is yellow", 5), ("D\nBaseball", 3), ("<think>A or B?</think>\nA", 0),
        ("It is curved.\n**F. Banana.**", 5), ("It is a banana.", 5), ("I'd go with B.", 1), ("Answer\uff1aF", 5),
        ("Final: F", 5), ("{'answer': 'F'}", 5), ("Not the key, but the banana.", 5), ("I would rule out the key.", None),
        ("A. I cannot answer this question.\n\nThe answer is F. Banana.", None), ("A.\nB.\nC.\nD.\nAnswer: D", 3),
        ("I'd first say D, but on reflection E.", None), ("I would not choose B", None), ("It isn't a banana.", None),
        ("A banana or a baseball", None), ("<think>it is F", None), ("I can\u2019t answer this question", 0),
    ],
)  # fmt: skip
def test_reported_cases(reply, index):
    assert read_leniently(reply, len(OPTIONS), OPTIONS) == index


def test_a_letter_beside_another_text_disagrees():
    assert names_another("F) Baseball", 5, OPTIONS) and not names_another("F) Banana", 5, OPTIONS)


def test_readings_of_all_replies_are_those_of_the_version_in_keys():
    """Raise ``LENIENT_VERSION`` of actors/playing/prompts.py if the digest has to change: stored readings must not mix."""
    rows = replies()
    read = [read_leniently(row["reply"], len(row["options"]), row["options"]) for row in rows]
    letters = [read_leniently(row["reply"], len(row["options"])) for row in rows]
    fewer = [read_leniently(row["reply"], 3, row["options"][:3]) for row in rows]

    assert LENIENT_VERSION == "lenient-3"
    assert sha256(json.dumps([read, letters, fewer]).encode()).hexdigest()[:16] == "43d1879a695c0122"
