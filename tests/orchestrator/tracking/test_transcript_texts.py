"""The sentences and fences of a transcript, by hand; whole transcripts of a run are in ``test_transcripts``."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from orchestrator.tracking import otlp, transcripts
from orchestrator.tracking.transcripts import TurnText, code_block, code_span


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("A", "```text\nA\n```"), ("a\nb", "```text\na\nb\n```"), ("``", "```text\n``\n```"),
        ("```", "````text\n```\n````"), ("` ````` ``", "``````text\n` ````` ``\n``````"), ("", "```text\n\n```"),
    ],
)  # fmt: skip
def test_a_block_has_more_ticks_than_its_text(text: str, block: str) -> None:
    assert code_block(text) == block


@pytest.mark.parametrize(
    ("text", "span"), [("A", "` A `"), ("a `b` c", "`` a `b` c ``"), ("```", "```` ``` ````"), ("", "`  `")]
)
def test_a_span_has_more_ticks_than_its_line(text: str, span: str) -> None:
    assert code_span(text) == span


def test_one_turn_is_singular() -> None:
    assert [transcripts._turns(count) for count in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]


def test_bounds_of_transcripts() -> None:
    assert (transcripts.MAX_TRANSCRIPTS, transcripts.MAX_PICTURES) == (60, 600)


TEXTS = ["What is it?", "move left", "a cup", "a dog", "reply", "cup.jpg"]


def turn(**changed: Any) -> dict[str, Any]:
    return {
        "turn": 0, "prompt": 0, "options": [1], "categories": [2, 3], "reply": 4, "picture": 0, "image": 5, "frame": 0,
        "action": "category", "option": "mismatch", "category": "correct", "move": None, **changed,
    }  # fmt: skip


def view(**changed: Any) -> dict[str, Any]:
    names = {"model": "m", "scenario": "ROD", "condition": "hint", "protocol": "mcqa", "kind": "right"}
    return {
        **names, "key": "k", "sample": 7, "ending": "correct", "played": 1, "seconds": 1.5, "turns": [turn()], **changed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, "Read as category: suggestion side mismatch, category side correct."),
        ({"move": "left"}, "Read as category: suggestion side mismatch, category side correct; the next view: left."),
        ({"answer": 1}, "Read as category: suggestion side mismatch, category side correct; correct here: ` a dog `."),
        ({"answer": 0}, "Read as category: suggestion side mismatch, category side correct; correct here: ` a cup `."),
        ({"answer": -1}, "Read as category: suggestion side mismatch, category side correct."),
        ({"action": None}, "Open-ended: a judge decides."),
    ],
)
def test_a_verdict_is_one_sentence(changed: dict[str, Any], sentence: str) -> None:
    assert transcripts._verdict(turn(**changed), TEXTS) == sentence


def test_a_transcript_has_every_field_of_its_episode() -> None:
    entry = transcripts._transcript(view(answer="a cup."), TEXTS, ["data:image/png;base64,x"])

    assert (entry.key, entry.name, entry.seconds, entry.answered) == ("k", "ROD 7 · m · hint · right", 1.5, True)
    assert entry.tags == {
        "model": "m", "scenario": "ROD", "condition": "hint", "protocol": "mcqa", "ending": "correct", "kind": "right",
    }  # fmt: skip
    assert entry.ending == "right after 1 turn. The right answer: ` a cup `."
    assert entry.turns == (
        TurnText(
            "turn 1 · category", "```text\nWhat is it?\nA. move left\nB. a cup\nC. a dog\n```", "```text\nreply\n```",
            "Read as category: suggestion side mismatch, category side correct.", "data:image/png;base64,x",
            {"picture": "cup.jpg", "frame": "0", "option": "mismatch", "category": "correct", "action": "category"},
        ),
    )  # fmt: skip


def test_what_is_unknown_is_said_in_a_transcript() -> None:
    without = {
        name: value for name, value in turn(picture="(gone)", action=None, length=1234).items() if name != "prompt"
    }
    entry = transcripts._transcript(
        view(ending="failed", kind="failed", played=2, seconds=None, turns=[without], error=["it died", 7]), TEXTS, []
    )
    (only,) = entry.turns

    assert (entry.seconds, entry.answered, entry.ending) == (0.0, False, "failed after 2 turns. ` it died `")
    assert (only.name, only.question, only.picture) == ("turn 1 · free answer", "(the question is unknown)", "(gone)")
    assert only.reply == "```text\nreply\n… (1,234 characters)\n```" and "action" not in only.attributes
    (named,) = transcripts._transcript(view(turns=[without], why="no data folder"), TEXTS, []).turns
    assert named.question == "(no data folder)"


@pytest.mark.parametrize(
    ("ending", "answered"),
    [("correct", True), ("wrong", True), ("limit", True), ("answered", True), ("overflow", False), ("refused", False)],
)
def test_an_answer_is_no_error(ending: str, answered: bool) -> None:
    assert transcripts._transcript(view(ending=ending), TEXTS, ["x"]).answered is answered


def test_each_judge_has_a_sentence() -> None:
    judged = [
        {"judge": ["one/x"], "category": True, "aggregate": False}, {"judge": ["two/y"], "reason": ["no verdict here"]},
        {"judge": ["three/z"]}, {"judge": ["four/w"], "category": True, "suggestion": False, "aggregate": True},
    ]  # fmt: skip
    assert transcripts._describe_verdicts({"judged": judged}) == (
        " Judge one/x: category yes, aggregate no. Judge two/y: ` no verdict here `. Judge three/z: ` no verdict `."
        " Judge four/w: category yes, suggestion no, aggregate yes."
    )
    assert transcripts._describe_verdicts({}) == ""


def test_refusals_of_a_collector_are_counted_and_the_first_is_kept() -> None:
    refused, logger = otlp._Refusals(), otlp.LOGGER
    before = logger.propagate, list(logger.handlers)
    refused.listen()
    try:
        assert logger.propagate is False
        logger.error("%s...\nsecond line", "x" * 300)
        logger.error("another")
        logger.warning("no error")
    finally:
        refused.end()
    assert (refused.count, refused.first) == (2, "x" * 200)
    assert (logger.propagate, list(logger.handlers)) == (True, before[1])
    short = otlp._Refusals()
    short.emit(logging.LogRecord("o", logging.ERROR, "", 0, "Failed to export: 400...", None, None))
    assert short.first == "Failed to export: 400"
