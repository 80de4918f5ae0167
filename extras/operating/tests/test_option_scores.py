"""Probabilities of options by hand: forms of one option add up, thoughts are averaged, the rest is the residual."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import exp, inf, log
from typing import Any

import pytest

from actors.engine.backend import FirstToken, FirstTokenReply, Reply, Request, ScriptedBackend, Situation
from actors.playing.judge import derive_seed
from envs import SCENARIOS
from proactive_operating.option_scores import (
    OptionScore,
    ScoredReply,
    draw_replies,
    mean_options,
    score_options,
    split_thought,
    sum_scores,
)
from proactive_operating.reply_scores import ReplyScore, ScoredReplies
from proactive_operating.state_graph import Question
from sweeps.conditions import Condition
from sweeps.sampling import Sampling
from tests.envs.games import SAMPLES

SAMPLE, GAME = SAMPLES["QD"], SCENARIOS["QD"]
STATE = GAME.initial(SAMPLE)
VIEW = GAME.view(SAMPLE, STATE)
QUESTION = Question(STATE, VIEW)
REQUEST = Request((), Sampling(checkpoint=True, sampled=True), 5, Situation(SAMPLE, STATE, VIEW), key="episode")
CONDITION = Condition(name="every-state", every_state=True)


def chances(options: Sequence[OptionScore]) -> list[float]:
    return [round(exp(score.log_probability), 12) for score in options]


def test_replies_that_name_one_option_add_up() -> None:
    scores = [ReplyScore(log(share), share == 0.3) for share in (0.2, 0.3, 0.1)]
    options = sum_scores(3, [1, 1, 0], scores)

    assert chances(options) == [0.1, 0.5, 0.0, 0.4] and [score.greedy for score in options] == [
        False,
        True,
        False,
        False,
    ]
    full = sum_scores(1, [0, 0], [ReplyScore(log(0.75), False), ReplyScore(log(0.5), False)])
    assert chances(full) == [1.25, 0.0] and full[1] == OptionScore(-inf, True), "rounding leaves no negative rest"


def test_thoughts_are_averaged_and_no_option_is_greedy() -> None:
    parts = [
        (OptionScore(log(0.5), True), OptionScore(-inf, False)),
        (OptionScore(log(0.25), False), OptionScore(log(0.5), True)),
    ]

    assert chances(mean_options(parts)) == [0.375, 0.25]
    assert [score.greedy for score in mean_options(parts)] == [False, False]
    assert mean_options([((OptionScore(-inf, True)),)]) == (OptionScore(-inf, False),)


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("A", ""), ("<think>so</think>A", "<think>so</think>"), ("<think>so</think>\n\n A. ", "<think>so</think>\n\n "),
        ("<think>so", ""), ("<think>a</think> <think>c", ""), ("<think>a</think>b</think> C", "<think>a</think>b</think> "),
        ("", ""), ("<think>so</think>", "<think>so</think>"),
    ],
)  # fmt: skip
def test_a_thought_ends_after_its_last_mark_and_the_space_behind_it(text: str, thought: str) -> None:
    assert split_thought(text) == thought


def test_drawn_replies_are_at_temperature_1_with_seeds_and_keys_of_their_own() -> None:
    asked: list[Request] = []
    backend = ScriptedBackend(lambda request: asked.append(request) or "A")
    replies = asyncio.run(draw_replies(backend, REQUEST, 3))

    assert replies == [Reply("A")] * 3 and [request.key for request in asked] == ["episode/0", "episode/1", "episode/2"]
    assert [request.seed for request in asked] == [derive_seed(5, number) for number in range(3)]
    assert {request.sampling for request in asked} == {Sampling(temperature=1.0)}


class Engine(ScriptedBackend):
    """Scores each reply by a table, or gives first tokens."""

    def __init__(self, table: dict[str, float] | None = None, first: FirstTokenReply | None = None) -> None:
        super().__init__(lambda request: "B")
        self.scores_replies, self.table, self.first, self.thoughts = table is not None, table or {}, first, []

    async def option_log_probabilities(
        self, request: Request, replies: Sequence[str], thought: str = ""
    ) -> ScoredReplies:
        self.thoughts.append(thought)
        scores = tuple(ReplyScore(log(self.table[r]) if r in self.table else -inf, r == "B") for r in replies)
        return ScoredReplies(scores, Reply("", 10, 2, "length", 0.5, 0.25, 3))

    async def first_tokens(self, request: Request) -> FirstTokenReply | None:
        return self.first


def score(backend: Any) -> ScoredReply:
    return asyncio.run(score_options(backend, REQUEST, CONDITION))


def test_an_engine_s_scores_become_options_with_its_usage() -> None:
    """The sample shows a suggestion, an abstention and four categories; the game reads no letter in brackets."""
    shown = (*VIEW.options, *VIEW.categories)
    engine = Engine({"A": 0.1, "B": 0.2, "(B)": 0.1, "B.": 0.15, f"B. {shown[1]}": 0.05, shown[0]: 0.2})
    reply = score(engine)

    assert chances(reply.options) == [0.3, 0.4, 0.0, 0.0, 0.0, 0.0, 0.3] and engine.thoughts == [""]
    assert [option.greedy for option in reply.options] == [False, True, False, False, False, False, False]
    assert (reply.text, reply.samples, reply.thoughts, reply.finish) == (shown[1], None, None, "stop")
    assert (reply.prompt_tokens, reply.reply_tokens, reply.seconds, reply.cost, reply.cached_tokens) == (
        10,
        2,
        0.5,
        0.25,
        3,
    )
    assert score(Engine({"A": 0.1})).text == "", "the rest is more probable than any option"


def test_letters_are_read_where_they_are_nine_tenths_of_first_tokens() -> None:
    def first(*tokens: tuple[str, float]) -> Engine:
        return Engine(
            first=FirstTokenReply("B", 9, first=tuple(FirstToken(text, log(share)) for text, share in tokens))
        )

    reply = score(first(("B", 0.7), ("A", 0.22), ("The", 0.05)))
    assert chances(reply.options)[:2] == [0.22, 0.7] and chances(reply.options)[-1] == pytest.approx(0.08)
    assert [option.greedy for option in reply.options] == [False, True] + [False] * 5
    assert (reply.samples, reply.prompt_tokens) == (None, 9)
    for engine in (first(("B", 0.7), ("A", 0.19), ("The", 0.11)), Engine()):
        sampled = score(engine)
        assert sampled.samples == 10 and chances(sampled.options) == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert not any(option.greedy for option in sampled.options)
