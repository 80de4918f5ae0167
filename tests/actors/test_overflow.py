"""Episodes that outgrow their model: an ending of their own, scored as not right, with the bound that they leave."""

from __future__ import annotations

import asyncio

import polars as pl
import pytest

from actors.engine.backend import Backend, Overflow, Refused, Reply, Request, ScriptedBackend, Unprocessable
from actors.playing.play import Episode, play, refusal_ending
from actors.playing.records import episode_row
from envs.types import Ending
from orchestrator.report.scores.metrics import score
from orchestrator.storage.schemas import EPISODES
from sweeps.conditions import CONDITIONS
from sweeps.spec import Cell, ModelSpec, Protocol
from tests.envs.games import SAMPLES
from tests.orchestrator.blocks import CELL, episode


def cell(condition: str, max_images: int | None = None, protocol: Protocol = Protocol.MCQA) -> Cell:
    model = ModelSpec(name="m", source="x", backend="transformers", max_images=max_images)
    return Cell(model=model, scenario="ROD", condition=CONDITIONS[condition], protocol=protocol)


def asks(request: Request) -> str:
    """Ask as long as there is something to ask."""
    return next(option for option in request.situation.view.options if "Move" in option)


def played(where: Cell, backend: ScriptedBackend) -> Episode:
    return asyncio.run(play(SAMPLES["ROD"], where, backend, "key", 1))


def row(where: Cell, found: Episode) -> dict[str, object]:
    return episode_row(where, found)._asdict()


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_history_ends_where_the_pictures_outgrow_the_entry(bound):
    where = cell("history", max_images=bound)
    found = played(where, ScriptedBackend(asks))
    told = row(where, found)

    assert found.ending is Ending.OVERFLOW and f"{bound + 1} pictures, the model takes {bound}" in str(found.error)
    assert len(found.turns) == bound, "every prompt that fits is asked"
    assert told["correct"] is False and told["suggestions"] == bound
    assert told["turns"] == bound + 1, "ps counts what was asked for before it overflowed"


def test_without_a_bound_history_goes_on_to_the_turn_limit():
    assert played(cell("history"), ScriptedBackend(asks)).ending is Ending.LIMIT
    assert played(cell("zero-shot", max_images=1), ScriptedBackend(asks)).ending is Ending.LIMIT


def test_an_engine_that_has_no_room_ends_the_episode_alone():
    def full(request: Request) -> str:
        if request.situation.state.turn == 2:
            raise Overflow("the prompt has 9,000 tokens, the model takes 4,096")
        return asks(request)

    found = played(cell("zero-shot"), ScriptedBackend(full))
    first = played(cell("zero-shot"), ScriptedBackend(lambda request: (_ for _ in ()).throw(Overflow("too long"))))

    assert (found.ending, len(found.turns)) == (Ending.OVERFLOW, 2) and "9,000 tokens" in str(found.error)
    assert row(cell("zero-shot"), first)["turns"] == 1, (
        "an episode that never began adds no suggestion and takes none away"
    )


def test_one_picture_of_open_ended_generation_cannot_outgrow_anything():
    where = cell("zero-shot", protocol=Protocol.OEG)
    found = played(where, ScriptedBackend(lambda request: (_ for _ in ()).throw(Overflow("too long"))))

    assert found.ending is Ending.UNPROCESSABLE


def test_refusals_keep_their_endings():
    assert [refusal_ending(problem("x"), Protocol.MCQA) for problem in (Unprocessable, Overflow, Refused)] == [
        Ending.UNPROCESSABLE, Ending.OVERFLOW, Ending.REFUSED,
    ]  # fmt: skip


class Silent(Backend):
    """Asks, and has spent its tokens before the first word on a turn."""

    def __init__(self, turn: int, text: str = "", finish: str = "length") -> None:
        self.turn, self.text, self.finish = turn, text, finish

    async def reply(self, request: Request) -> Reply:
        here = request.situation.state.turn == self.turn
        return Reply(self.text, reply_tokens=50, finish=self.finish) if here else Reply(asks(request))

    async def close(self) -> None:
        return None


def test_an_empty_reply_whose_tokens_were_spent_has_an_ending_of_its_own():
    found = played(cell("zero-shot"), Silent(turn=2))
    told = row(cell("zero-shot"), found)

    assert found.ending is Ending.TRUNCATED and [shown.turn.reply for shown in found.turns][2:] == [""]
    assert (told["turns"], told["suggestions"], told["unparsable"], told["correct"]) == (3, 2, 1, False)
    assert told["reply_tokens"] == 50, "what was spent in silence is counted"


@pytest.mark.parametrize(("text", "finish"), [("", "stop"), ("The picture", "length"), (" ", "length")])
def test_what_says_something_or_ends_by_itself_is_a_wrong_answer(text, finish):
    assert played(cell("zero-shot"), Silent(1, text, finish)).ending is Ending.WRONG


def test_an_open_ended_answer_stays_one_for_the_judge_reads_it():
    assert played(cell("zero-shot", protocol=Protocol.OEG), Silent(0)).ending is Ending.ANSWERED


def test_what_was_cut_short_is_scored_as_not_right_and_leaves_a_bound():
    rows = [
        episode(1, turns=1),
        episode(2, ending=Ending.LIMIT, turns=5, suggestions=5, categories=0),
        episode(3, ending=Ending.OVERFLOW, turns=4, suggestions=3, categories=0),
        episode(4, ending=Ending.UNPROCESSABLE, turns=0, suggestions=0, categories=0),
        episode(5, ending=Ending.TRUNCATED, turns=2, suggestions=1, categories=0),
    ]
    planned = pl.DataFrame(
        {
            "model": ["m"],
            "scenario": ["QD"],
            "condition": ["hint"],
            "protocol": ["mcqa"],
            "cell": [CELL],
            "planned": [5],
        }
    )
    found = score(pl.LazyFrame(rows, schema=EPISODES), planned).row(0, named=True)

    assert (found["scored"], found["overflow"], found["truncated"], found["errors"]) == (4, 1, 1, 1)
    assert (found["acc"], found["acc_bound"]) == (25.0, 75.0), "what was cut short could all have ended right"
    assert (found["loops"], found["loops_bound"]) == (25.0, 75.0)
    assert found["ps"] == (0 + 4 + 3 + 1) / 4
