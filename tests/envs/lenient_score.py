"""Precision and recall of the lenient reading on written replies; `python -m tests.envs.lenient_score` prints them.

``lenient_replies.jsonl`` holds a reply, the options shown and the index that a person takes it for (null: none). A hash of
the reply splits it: rules may be written while looking at the half ``seen`` alone, the other half says what they are worth.
``real_replies.jsonl`` holds what SmolLM2-135M (without pictures) and embedded-135m replied at temperature 1, labeled by reading:
the letter that a reply begins with counts even before another text, two answers name nothing.
"""

from __future__ import annotations

import json
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from envs.lenient import read_leniently

SEED = "lenient-2026"
REPLIES = Path(__file__).with_name("lenient_replies.jsonl")
REAL = Path(__file__).with_name("real_replies.jsonl")
HALVES = ("seen", "unseen", "smollm2 seen", "smollm2 unseen", "embedded-135m")


class Score(NamedTuple):
    """How a half was read: ``precision`` and ``recall`` are shares."""

    replies: int
    precision: float
    recall: float
    mistakes: list[str]


def replies() -> list[dict[str, Any]]:
    """Every reply, with ``half``: one of ``HALVES``."""
    rows = [{**row, "half": _half(row["reply"], row["options"])} for row in _read(REPLIES)]
    return rows + _read(REAL)


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def score(half: str) -> Score:
    """The score of one of ``HALVES``; mistakes are what was read otherwise than meant."""
    rows = [row for row in replies() if row["half"] == half]
    read = [read_leniently(row["reply"], len(row["options"]), row["options"]) for row in rows]
    right = sum(index is not None and index == row["meant"] for index, row in zip(read, rows, strict=True))
    answered = sum(index is not None for index in read)
    meant = sum(row["meant"] is not None for row in rows)
    wrong = [
        f"{row['reply']!r}: {index} for {row['meant']}"
        for index, row in zip(read, rows, strict=True)
        if index != row["meant"]
    ]
    return Score(len(rows), right / answered, right / meant, wrong)


def _half(reply: str, options: list[str]) -> str:
    hashed_byte = blake2b(f"{SEED}/{options[0]}/{reply}".encode(), digest_size=1).digest()[0]
    return "seen" if hashed_byte % 2 else "unseen"


if __name__ == "__main__":
    for name in HALVES:
        measured = score(name)
        print(f"{name}: {measured.replies} replies, precision {measured.precision:.3f}, recall {measured.recall:.3f}")
        if name in sys.argv[1:]:
            print("\n".join(measured.mistakes))
