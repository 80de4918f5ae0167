"""A card of a film strip: what the model saw, could choose, and what its reply was read as."""

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.api import film_strip
from orchestrator.api.film_strip import FilmStrip, _card, _first
from orchestrator.api.open_run import Run
from tests.orchestrator.report.runs import play_sweep, sweep

TEXTS = ("What is it?", "Move it.", "I cannot.", "Cup.", "Dog.", "A.")
PICTURES = ("data:one", "data:two")
TURN = {"turn": 0, "frame": 7, "picture": 1, "prompt": 0, "options": (1, 2), "categories": (3, 4), "asks": (0,), "answer": 1,
        "said": (-1, 0), "reply": 5, "action": "category", "move": ""}  # fmt: skip


def option(letter, text, counts=False, said=False):
    return {"letter": letter, "text": text, "counts": counts, "said": said}


def test_a_card_marks_what_counts_and_what_was_said():
    assert _card(TURN, TEXTS, PICTURES) == {
        "turn": 1, "frame": 7, "picture": "data:two", "missing": "", "prompt": "What is it?", "reply": "A.",
        "options": [
            option("A", "Move it.", counts=True), option("B", "I cannot."), option("C", "Cup.", said=True),
            option("D", "Dog.", counts=True),
        ],
        "read": "category",
    }  # fmt: skip
    asked = _card({**TURN, "turn": 4, "said": (0, -1), "action": "suggestion", "move": "left"}, TEXTS, PICTURES)
    assert (asked["turn"], asked["read"]) == (5, "suggestion → left")
    assert [each["said"] for each in asked["options"]] == [True, False, False, False]


def test_a_card_without_its_sample_has_the_reply_alone():
    bare = {name: TURN[name] for name in ("turn", "frame", "reply", "action", "move")}
    card = _card({**bare, "picture": "not in the data folder"}, TEXTS, PICTURES)

    assert (card["picture"], card["missing"]) == ("", "no picture: not in the data folder")
    assert (card["prompt"], card["options"], card["reply"]) == ("", [], "A.")
    assert _card({**TURN, "picture": 0}, TEXTS, PICTURES)["picture"] == "data:one"


def test_no_answer_of_either_side_is_said_where_nothing_was_read():
    card = _card({name: value for name, value in TURN.items() if name not in ("said", "asks")}, TEXTS, PICTURES)

    assert not any(each["said"] for each in card["options"])
    assert [each["counts"] for each in card["options"]] == [False, False, False, True]


def test_a_shortened_text_is_shown_by_its_beginning():
    assert (_first(["begin", 9_000]), _first("whole"), _first(3)) == ("begin", "whole", 3)


def test_a_strip_is_its_html():
    strip = FilmStrip("<b>one</b>")

    assert (str(strip), strip._repr_html_(), strip.html) == ("<b>one</b>",) * 3


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    wanted = sweep(demo_data, ["always-ask", "oracle"], ["zero-shot"], scenarios=["VSOD"], selection={"limit": 3})
    return Run(play_sweep(tmp_path_factory.mktemp("strip") / "run", wanted))


def test_a_long_episode_has_so_many_pictures_at_most(run, monkeypatch):
    longest = run.episodes.sort("turns").row(-1, named=True)
    assert str(run.show(longest["key"])).count("data:image/webp;base64,") == longest["turns"] == 20
    monkeypatch.setattr(film_strip, "MAX_PICTURES", 5)

    assert str(run.show(longest["key"])).count("data:image/webp;base64,") == 5


def test_a_strip_says_how_many_turns_it_leaves_out_and_why_an_episode_failed(run):
    row = run.episodes.sort("turns").row(-1, named=True)
    turns = run.turns.filter(pl.col("key") == row["key"]).to_dicts()
    assert row["turns"] == len(turns) == 20

    def shown(row):
        return str(film_strip.film_strip(run._read, row, turns))

    whole = shown(row)
    assert "turns in between" not in whole and whole.partition("Turn 1")[0].count("<p ") == 1
    assert " · 5 turns in between are not shown" in shown({**row, "turns": 25})
    assert " · 1 turn in between is not shown" in shown({**row, "turns": 21})
    assert "the picture is damaged" in shown({**row, "ending": "unprocessable", "error": "the picture is damaged"})


def test_an_unknown_key_is_answered_with_the_nearest(run):
    key = run.episodes["key"][0]

    with pytest.raises(RunFolderError) as error:
        run.show(f"{key}x")
    assert str(error.value) == f"{run.folder} has no episode {key + 'x'!r}; did you mean {key!r}?"
    with pytest.raises(RunFolderError) as error:
        run.show("#")
    assert str(error.value) == f"""{run.folder} has no episode '#'; `.episodes["key"]` lists them"""
