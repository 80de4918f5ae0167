"""Kinds of replies are counted per cell, at every turn, against the options that were shown."""

import polars as pl
import pytest

from actors.engine.backend import Backend, Reply, Request
from envs.answers import letter
from envs.reply_kinds import DISAGREES, NOT_OFFERED, REPEATS_LIST
from orchestrator.report.measures.reply_kinds import SAME_LETTER, _same_letter, reply_kinds
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.runs import play_sweep, sweep


class Misreplies(Backend):
    """A model with one way to reply, made from the options that are shown."""

    def __init__(self, way: str) -> None:
        self.way = way

    async def reply(self, request: Request) -> Reply:
        view = request.situation.view
        texts = (*view.options, *view.categories)
        ways = {
            "lists": "\n".join(f"{letter(index)}. {text}" for index, text in enumerate(texts)),
            "contradicts": f"A. {texts[1]}",
            "invents": "B. A purple elephant.",
            "obeys": texts[0],
        }
        return Reply(ways[self.way])

    async def close(self) -> None:
        return None


WAYS = {"lists": REPEATS_LIST, "contradicts": DISAGREES, "invents": NOT_OFFERED, "obeys": None}


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    models = [{"name": way, "source": "x", "backend": "transformers", "gpus": 0} for way in WAYS]
    wanted = sweep(demo_data, models, ["zero-shot", "random-proactive", "shuffled"])
    backends = {way: Misreplies(way) for way in WAYS}
    return play_sweep(tmp_path_factory.mktemp("kinds") / "run", wanted, backends=backends)


def test_every_reply_has_the_kind_that_it_was_made_to_have(run):
    rows = reply_kinds(read_run(run))
    for way, kind in WAYS.items():
        shares = rows.filter(model=way).select(REPEATS_LIST, DISAGREES, NOT_OFFERED).unique().rows(named=True)

        assert shares == [{name: 100.0 if name == kind else 0.0 for name in (REPEATS_LIST, DISAGREES, NOT_OFFERED)}]
    cell = rows.filter(model="contradicts").row(0, named=True)
    assert cell[SAME_LETTER] == (100.0 if cell["replies"] >= 10 else 0.0)


def test_without_samples_single_letters_have_no_kind(run, tmp_path):
    rows = reply_kinds(read_run(run, data=tmp_path / "gone"))

    assert set(rows.filter(model="invents")[NOT_OFFERED]) == {0.0}
    assert rows.filter(model="invents")["unread"].sum() == rows.filter(model="invents")["replies"].sum()


@pytest.mark.parametrize(
    ("letters", "count"),
    [
        ("A" * 10, 10), ("A" * 9, 0), ("A" * 19 + "B", 19), ("A" * 18 + "BB", 0), ("A" * 10 + "?" * 5, 10), ("", 0),
    ],
)  # fmt: skip
def test_ten_replies_of_which_nearly_all_are_one_letter(letters, count):
    replies = ["no letter at all" if name == "?" else f"{name}." for name in letters]
    turns = pl.DataFrame(
        {"cell": ["c"] * len(replies), "reply": replies}, schema={"cell": pl.String, "reply": pl.String}
    )

    assert _same_letter(turns).rows() == ([("c", count)] if replies else [])
