"""One episode of the browser: every field that the page reads, the reasons for what is missing, and the bound on bytes."""

import dataclasses

import pytest

from orchestrator.report.html import episode_view
from orchestrator.report.html.episode_view import EpisodeViews, replay_episode
from orchestrator.report.html.thumbnails import Thumbnails
from tests.orchestrator.blocks import episode, turn

KEY = "uniform/QD/hint/0001-00000000"
SAMPLE_GONE = "question and options are not shown: the data folder does not hold this sample as it was played"


def row_of(**fields):
    return {**episode(1, "uniform/QD/hint"), "kind": "correct", **fields}


def view_of(run_data, row, turns=(), verdicts=()):
    views = EpisodeViews(run_data, Thumbnails(None, 0))
    return views.view(row, turns, verdicts), list(views.texts)


@pytest.fixture
def without_samples(run_data):
    return dataclasses.replace(run_data, samples={})


def test_a_view_holds_the_episode_and_its_turns(without_samples):
    stored = turn(KEY, 0, "A cat") | {"image": "QD/0.jpg^224", "move": "left", "thoughts": "Hm."}
    view, texts = view_of(without_samples, row_of(seconds=0.12345), [stored, turn(KEY, 1, None) | {"image": None}])

    first = {
        "turn": 0, "frame": 0, "picture": "the data folder is not available", "image": 0, "reply": 1, "edge": 224, "thoughts": 2,
        "option": "mismatch", "category": "correct", "action": "category", "move": "left",
    }  # fmt: skip
    second = {
        "turn": 1, "frame": 1, "picture": "the data folder is not available", "image": 3, "reply": 3, "option": "mismatch",
        "category": "correct", "action": "category", "move": None,
    }  # fmt: skip
    assert view == {
        "key": KEY, "model": "uniform", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "ending": "correct",
        "kind": "correct", "sample": 1, "played": 2, "seconds": 0.123, "tokens": [100, 3], "why": SAMPLE_GONE,
        "turns": [first, second],
    }  # fmt: skip
    assert texts == ["QD/0.jpg^224", "A cat", "Hm.", ""]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, SAMPLE_GONE),
        ({"protocol": "tools"}, SAMPLE_GONE),
        ({"protocol": "oeg"}, "an open question: no options were shown"),
        ({"protocol": "oeg-multi"}, "open questions: no options were shown, and a judge read each answer"),
    ],
)
def test_what_is_not_shown_has_its_reason(without_samples, row, reason):
    turns = [turn(KEY, 0)]

    assert replay_episode(without_samples, row_of(**row), turns) == ({}, reason)
    assert replay_episode(without_samples, row_of(**row), []) == ({}, "")


def test_open_questions_follow_the_stored_frames(run_data):
    number, sample = next(iter(run_data.samples["QD"].items()))
    start = episode_view.SCENARIOS["QD"].initial(sample)
    row = row_of(sample_id=number, condition="zero-shot", protocol="oeg-multi")
    turns = [turn(KEY, n) | {"frame": start.frame + 50 * n, "read_as": None} for n in range(2)]

    questions, _ = replay_episode(run_data, row, turns)
    assert list(questions) == [0], "the second frame is not where the first reading leads"
    assert questions[0].view.options == questions[0].view.categories == () and questions[0].view.prompt
    assert (questions[0].answer, questions[0].asks, questions[0].said) == (-1, (), (-1, -1))
    assert list(replay_episode(run_data, {**row, "protocol": "oeg"}, turns[:1] * 2)[0]) == [0]
    assert replay_episode(run_data, row, [turns[1]])[0] == {}
