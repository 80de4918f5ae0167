"""Defaults of requests, replies and backends, where an engine gives no more."""

from __future__ import annotations

import asyncio

import pytest

from actors.engine.backend import (
    BudgetSpent,
    FirstTokenReply,
    Message,
    ModelInput,
    ModelStopped,
    Reply,
    Request,
    ScriptedBackend,
    Situation,
    images_of,
)
from envs import SCENARIOS
from envs.types import ImageRef
from sweeps.sampling import Sampling
from tests.envs.games import SAMPLES

GAME, SAMPLE = SCENARIOS["QD"], SAMPLES["QD"]
STATE = GAME.initial(SAMPLE)
SITUATION = Situation(SAMPLE, STATE, GAME.view(SAMPLE, STATE))
REQUEST = Request(
    (Message("user", "Which?", (ImageRef("a"), ImageRef("b"))), Message("user", "?")), Sampling(), 3, SITUATION
)


def test_a_request_asks_for_an_option_and_nothing_else() -> None:
    assert (SITUATION.open_ended, SITUATION.answer, SITUATION.dialogue, SITUATION.calls) == (False, "", False, ())
    assert (REQUEST.key, REQUEST.tools) == ("", ()) and Message("user", "?").images == ()
    assert images_of(REQUEST.messages) == [ImageRef("a"), ImageRef("b")]


def test_a_reply_of_a_policy_costs_nothing_and_reports_no_cache() -> None:
    plain = ("A", 0, 0, "stop", 0.0, 0.0, None, None, None)

    for reply in (Reply("A"), FirstTokenReply("A")):
        fields = (reply.text, reply.prompt_tokens, reply.reply_tokens, reply.finish, reply.seconds, reply.cost)
        assert (*fields, reply.cached_tokens, reply.pictures, reply.cached_pictures) == plain
    assert FirstTokenReply("A").first == ()
    empty = ModelInput()
    assert (empty.ids, empty.hashes, empty.decoding, empty.dtype, empty.raw_pixels) == ((), {}, {}, "", False)


def test_a_plain_backend_replies_and_has_nothing_more() -> None:
    backend = ScriptedBackend(lambda request: f"seed {request.seed}")

    async def ask() -> tuple[object, ...]:
        with backend.in_play():
            reply = await backend.reply(REQUEST)
        with pytest.raises(NotImplementedError, match="ScriptedBackend gives no probabilities"):
            await backend.option_log_probabilities(REQUEST, ["A"])
        backend.limit_in_flight(1)
        backend.set_budget(None)
        await backend.close()
        await backend.close()
        inputs = await backend.model_input(REQUEST), await backend.first_tokens(REQUEST)
        return reply, *inputs

    assert asyncio.run(ask()) == (Reply("seed 3"), None, None)
    assert (backend.scores_replies, backend.load_seconds, backend.cache_tokens) == (False, 0.0, None)
    assert issubclass(BudgetSpent, ModelStopped)
