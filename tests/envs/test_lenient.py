"""The lenient reading is right on replies that were not looked at while its rules were written."""

import json
from hashlib import sha256

import pytest

from actors.playing.prompts import LENIENT_VERSION
from envs import lenient
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


def test_half_of_three_hundred_replies_are_held_out():
    rows = [row for row in replies() if row["half"] in ("seen", "unseen")]
    unseen = [row for row in rows if row["half"] == "unseen"]

    assert len(rows) >= 300 and 0.4 <= len(unseen) / len(rows) <= 0.6
    assert all(row["meant"] is None or 0 <= row["meant"] < len(row["options"]) for row in rows)
    assert sum(row["meant"] is None for row in unseen) >= 30, "replies that name nothing are what precision is about"


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


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("The answer is not B. The answer is F", 5),
        ("The first option.", 0), ("The sixth option.", 5), ("The last option.", 5), ("the LAST choice", 5),
        ("The first or the second one", None), ("Not the first option.", None), ("The first option?", 0),
        ("Skil", None), ("Move the blue", 1), ("Key", 4), ("key.", 4), ("The key", 4), ("Mov", None),
        ("It is a key and a banana.", None), ("Could it be a banana?", None), ("It is either a banana.", None),
        ("word " * 13 + "it is a banana.", 5), ("word " * 15 + "it is a banana.", None),
        ("x" * 4_000 + "\nF", None), ("x" * 3_998 + "\nF", 5), ("G", None), ("Z", None), ("\uff26", 5),
        ("A) B) The answer is F", None), ("A) x\nB) y\nThe answer is F", None), ("A) x\nB) y\nC) z\nThe answer is F", 5),
        ("die Antwort ist F", 5), ("die Antwort ist nicht F", None), ("\u7b54\u6848\u662fF", 5), ("it is F, no, E", 5),
        ("I say D. Actually, E", 4), ("I can't answer this question", 0), ("It's a banana", 5), ("", None),
    ],
)  # fmt: skip
def test_what_a_sentence_says_is_its_option(reply, index):
    assert read_leniently(reply, len(OPTIONS), OPTIONS) == index


@pytest.mark.parametrize("text", ["the huge", "a huge", "huge", "Huge"])
def test_a_beginning_counts_with_or_without_its_article(text):
    assert lenient._by_text(text, ["a huge dog", "the cat"]) == 0
    assert lenient._by_text(text, ["the cat", "huge dog"]) == 1
    assert lenient._by_text(text, ["a huge dog", "the huge cat"]) is None
    assert lenient._by_text(text[:-1], ["a huge dog", "the cat"]) is None, (
        "no part of a word, and no word of three letters"
    )
