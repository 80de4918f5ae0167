"""Probabilities of options by hand: forms of one option add up, the rest is the residual, and draws have seeds of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import exp, inf, log

from actors.engine.backend import Reply, Request
from actors.playing.judge import derive_seed
from proactive_operating.option_scores import draw_replies, sum_scores
from proactive_operating.reply_scores import ReplyScore
from sweeps.sampling import Sampling
from tests.actors.asking import make_request, user
from tests.actors.scripted_backend import ScriptedBackend

SITUATION = make_request(user("?")).situation
REQUEST = Request((), Sampling(checkpoint=True, sampled=True), 5, SITUATION, key="episode")


def chances(options: Sequence[ReplyScore]) -> list[float]:
    return [round(exp(score.log_probability), 12) for score in options]


def test_replies_that_name_one_option_add_up() -> None:
    scores = [ReplyScore(log(share), share == 0.3) for share in (0.2, 0.3, 0.1)]
    options = sum_scores(3, [1, 1, 0], scores)

    assert chances(options) == [0.1, 0.5, 0.0, 0.4]
    assert [score.greedy for score in options] == [False, True, False, False]
    full = sum_scores(1, [0, 0], [ReplyScore(log(0.75), False), ReplyScore(log(0.5), False)])
    assert chances(full) == [1.25, 0.0] and full[1] == ReplyScore(-inf, True), "rounding leaves no negative rest"


def test_drawn_replies_are_at_temperature_1_with_seeds_and_keys_of_their_own() -> None:
    asked: list[Request] = []
    backend = ScriptedBackend(lambda request: asked.append(request) or "A")
    replies = asyncio.run(draw_replies(backend, REQUEST, 3))

    assert replies == [Reply("A")] * 3 and [request.key for request in asked] == ["episode/0", "episode/1", "episode/2"]
    assert [request.seed for request in asked] == [derive_seed(5, number) for number in range(3)]
    assert {request.sampling for request in asked} == {Sampling(temperature=1.0)}
