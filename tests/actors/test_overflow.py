"""Episodes that overflow their model have an ending of their own, count as not correct, and leave a bound."""

import asyncio

import pytest

from actors.engine.backend import Backend, Reply, Request
from actors.playing.play import Episode, play
from actors.playing.records import episode_row
from envs.types import Ending
from sweeps.conditions import CONDITIONS
from sweeps.spec import Cell, ModelSpec, Protocol
from tests.actors.scripted_backend import ScriptedBackend
from tests.envs.games import SAMPLES


def cell(condition: str, max_images: int | None = None, protocol: Protocol = Protocol.MCQA) -> Cell:
    model = ModelSpec(name="m", source="x", backend="transformers", max_images=max_images)
    return Cell(model=model, scenario="ROD", condition=CONDITIONS[condition], protocol=protocol)


def ask_for_more(request: Request) -> str:
    """Ask as long as a suggestion is left."""
    return next(option for option in request.situation.view.options if "Move" in option)


def play_sample(where: Cell, backend: ScriptedBackend) -> Episode:
    return asyncio.run(play(SAMPLES["ROD"], where, backend, "key", 1))


def row(where: Cell, episode: Episode) -> dict[str, object]:
    return episode_row(where, episode)._asdict()


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_history_ends_where_the_pictures_outgrow_the_entry(bound):
    where = cell("history", max_images=bound)
    episode = play_sample(where, ScriptedBackend(ask_for_more))
    fields = row(where, episode)

    assert episode.ending is Ending.OVERFLOW and f"{bound + 1} pictures, the model takes {bound}" in str(episode.error)
    assert len(episode.turns) == bound, "every prompt that fits is asked"
    assert fields["correct"] is False and fields["suggestions"] == bound
    assert fields["turns"] == bound + 1, "ps counts what was asked for before it overflowed"


class Silent(Backend):
    """Asks, and has spent its tokens before the first word on a turn."""

    def __init__(self, turn: int, text: str = "", finish: str = "length") -> None:
        self.turn, self.text, self.finish = turn, text, finish

    async def reply(self, request: Request) -> Reply:
        silent = request.situation.state.turn == self.turn
        return Reply(self.text, reply_tokens=50, finish=self.finish) if silent else Reply(ask_for_more(request))


def test_empty_reply_with_spent_tokens_is_truncated():
    episode = play_sample(cell("zero-shot"), Silent(turn=2))
    fields = row(cell("zero-shot"), episode)

    assert episode.ending is Ending.TRUNCATED and [turn.turn.reply for turn in episode.turns][2:] == [""]
    assert (fields["turns"], fields["suggestions"], fields["unparsable"], fields["correct"]) == (3, 2, 1, False)
    assert fields["reply_tokens"] == 50, "what was spent in silence is counted"


@pytest.mark.parametrize(("text", "finish"), [("", "stop"), ("The picture", "length"), (" ", "length")])
def test_partial_text_or_natural_end_is_wrong_answer(text, finish):
    assert play_sample(cell("zero-shot"), Silent(1, text, finish)).ending is Ending.WRONG
