"""The lenient reading is right on replies that were not looked at while its rules were written."""

import json
from hashlib import sha256

import pytest

from actors.playing.prompts import LENIENT_VERSION
from envs.lenient import read_leniently
from tests.envs.lenient_score import replies, score

OPTIONS = (
    "I cannot answer this question.",
    "Move the blue blocks to the left.",
    "Skillet.",
    "Baseball.",
    "Key.",
    "Banana.",
)


def test_precision_and_recall_on_the_unseen_half():
    measured = score("unseen")

    assert measured.precision >= 0.98 and measured.recall >= 0.85, measured.mistakes
    assert score("seen").precision >= 0.98


def test_unusual_shapes_are_read_or_left_alone():
    measured = score("shapes")

    assert measured.replies >= 150 and measured.precision >= 0.98 and measured.recall >= 0.85, measured.mistakes


@pytest.mark.parametrize(
    ("half", "least", "precision", "recall"),
    [("embedded-135m", 300, 0.98, 0.95), ("smollm2 seen", 300, 0.93, 0.9), ("smollm2 unseen", 120, 0.93, 0.85)],
)
def test_real_replies_are_read_as_a_person_reads_them(half, least, precision, recall):
    """SmolLM2's at temperature 1 are half nonsense: 0.905 and 0.913 at first sight of 182 of them."""
    measured = score(half)

    assert measured.replies >= least and measured.precision >= precision and measured.recall >= recall, (
        measured.mistakes
    )


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("\\boxed{F}", 5), ("F, because it is yellow", 5), ("D\nBaseball", 3), ("<think>A or B?</think>\nA", 0),
        ("It is curved.\n**F. Banana.**", 5), ("It is a banana.", 5), ("I'd go with B.", 1), ("Answer\uff1aF", 5),
        ("choice: (f)", 5),
        ("Final: F", 5), ("Ans. E", 4), ("{'answer': 'F'}", 5), ("not E but F", 5), ("I'd first say D, but on reflection E.", 4),
        ("It is not the key but the banana.", 5), ("I would rule out the key.", None), ("More than one banana?", None),
        ("A. I cannot answer this question.\n\nThe answer is F. Banana.", None), ("A.\nB.\nC.\nD.\nAnswer: D", 3),
        ("The first one.", 0), ("I would not choose B", None), ("The answer is A banana", 5), ("It isn't a banana.", None),
        ("A banana or a baseball", None), ("<think>it is F", None), ("I can\u2019t answer this question", 0),
    ],
)  # fmt: skip
def test_reported_cases(reply, index):
    assert read_leniently(reply, len(OPTIONS), OPTIONS) == index


def test_readings_of_all_replies_are_those_of_the_version_in_keys():
    """Raise ``LENIENT_VERSION`` of actors/playing/prompts.py if the digest has to change: stored readings must not mix."""
    rows = replies()
    read = [read_leniently(row["reply"], len(row["options"]), row["options"]) for row in rows]
    letters = [read_leniently(row["reply"], len(row["options"])) for row in rows]
    fewer = [read_leniently(row["reply"], 3, row["options"][:3]) for row in rows]

    assert LENIENT_VERSION == "lenient-2"
    assert sha256(json.dumps([read, letters, fewer]).encode()).hexdigest()[:16] == "45e45d9912a65a54"
