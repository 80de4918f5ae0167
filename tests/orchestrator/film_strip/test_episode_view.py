"""One episode of the browser: every field that the page reads, the reasons for what is missing, and the bound on bytes."""

import dataclasses

import polars as pl
import pytest

from orchestrator import film_strip
from orchestrator.film_strip import replay_episode
from tests.orchestrator.blocks import episode, turn

KEY = "uniform/QD/hint/0001-00000000"
SAMPLE_GONE = "question and options are not shown: the data folder does not hold this sample as it was played"


def row_of(**fields):
    return {**episode(1, "uniform/QD/hint"), "kind": "correct", **fields}


@pytest.fixture
def without_samples(run_data):
    return dataclasses.replace(run_data, samples={})


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


def test_an_edited_episode_without_a_count_of_tokens_has_none_of_them(without_samples):
    row = row_of(prompt_tokens=None, reply_tokens=7)
    assert film_strip.view_episode(without_samples, film_strip.Thumbnails(None), row, [])["tokens"] == [0, 7]


def test_open_questions_follow_the_stored_frames(run_data):
    number, sample = next(iter(run_data.samples["QD"].items()))
    start = film_strip.SCENARIOS["QD"].initial(sample)
    row = row_of(sample_id=number, condition="zero-shot", protocol="oeg-multi")
    turns = [turn(KEY, n) | {"frame": start.frame + 50 * n, "read_as": None} for n in range(2)]

    questions, _ = replay_episode(run_data, row, turns)
    assert list(questions) == [0], "the second frame is not where the first reading leads"
    assert questions[0].view.options == questions[0].view.categories == () and questions[0].view.prompt
    assert (questions[0].answer, questions[0].asks, questions[0].said) == (-1, (), ())
    assert list(replay_episode(run_data, {**row, "protocol": "oeg"}, turns[:1] * 2)[0]) == [0]
    assert replay_episode(run_data, row, [turns[1]])[0] == {}
    questions, reason = replay_episode(run_data, {**row, "protocol": "another"}, turns)
    assert questions == {} and "zero-shot (another)" in reason


def test_a_played_episode_shows_the_question_the_picture_and_the_reply_of_every_turn(run_data):
    played = run_data.episodes.lazy().filter(pl.col("condition") == "zero-shot", pl.col("turns") > 1)
    folder = film_strip.picture_folder(run_data)
    shown, bounded = film_strip.Thumbnails(folder), film_strip.Thumbnails(folder, most=1)
    for row in played.with_columns(kind=pl.lit("correct")).head(20).collect().iter_rows(named=True):
        turns = run_data.turns.filter(pl.col("key") == row["key"]).sort("turn").collect().to_dicts()
        view = film_strip.view_episode(run_data, shown, row, turns)
        for seen, stored in zip(view["turns"], turns, strict=True):
            offered = [*seen["options"], *seen["categories"]]
            assert [offered[number] for number in seen["said"]] == [seen["reply"]] == [stored["reply"]]
            assert (seen["action"] == "suggestion") is (seen["said"][0] in seen["asks"]), "baselines ask for what helps"
            assert offered[seen["answer"]] == view["answer"] or seen["answer"] == -1
            assert seen["image"] == stored["image"] and seen["prompt"]
            assert shown.uris[seen["picture"]].startswith("data:image/webp")
        last = film_strip.view_episode(run_data, bounded, row, turns)["turns"][-1]
    assert len(bounded.uris) == 1 and isinstance(last["picture"], str)
