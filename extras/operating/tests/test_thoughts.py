"""A model that thinks first: its options are scored after sampled thoughts, averaged, and stored as not exact."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from actors.engine.backend import Backend, Reply, Request
from actors.playing.play import Episode, play
from envs.samples import load_samples
from proactive_operating.option_scores import split_thought
from proactive_operating.reply_scores import ReplyScore, ScoredReplies
from sweeps.conditions import VARIANTS, OwnCondition
from sweeps.spec import Cell, ModelSpec

MODEL = ModelSpec(name="thinker", source="x", backend="transformers", gpus=0)
THOUGHTS = VARIANTS["every-state"].model_copy(update={"thoughts": 8})
SURE, UNSURE, ENDLESS = "<think>It is clear.</think>\n\n", "<think>Hard to see.</think>\n\n", "<think>Or is it"
SHARES = {SURE: (0.75, 0.125), UNSURE: (0.125, 0.5)}
"""Thought -> probability of the first and of the second option after it; the rest is unreadable."""


class Thinker(Backend):
    """It thinks one of three thoughts; one has no end. Without a whole thought it never answers."""

    scores_replies = True

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds, self.drawn, self.scored = kinds, list[str](), list[str]()

    async def reply(self, request: Request) -> Reply:
        assert request.sampling.temperature == 1.0
        self.drawn.append(Random(request.seed).choice(self.kinds))
        return Reply(f"{self.drawn[-1]}A", 10, 5)

    async def option_log_probabilities(
        self, request: Request, replies: Sequence[str], thought: str = ""
    ) -> ScoredReplies:
        self.scored.append(thought)
        chances = dict(zip(("A", "B"), SHARES.get(thought, ()), strict=False))
        logs = {reply: math.log(chances[reply]) if reply in chances else -math.inf for reply in replies}
        return ScoredReplies(tuple(ReplyScore(logs[reply], reply == "A") for reply in replies), Reply("", 3))


def ask(model: Thinker, data: Path, condition: OwnCondition = THOUGHTS) -> Episode:  # type: ignore[assignment]
    sample = load_samples(data, "MVP-N")[0]
    return asyncio.run(play(sample, Cell(model=MODEL, scenario="MVP-N", condition=condition), model, "key", seed=1))


def test_probabilities_are_means_over_thoughts_and_the_rest_is_residual(demo_data: Path) -> None:
    model = Thinker([SURE, UNSURE, ENDLESS])
    episode = ask(model, demo_data)
    rows = episode.options
    assert len(model.drawn) == 8 * len(episode.turns)
    for number in range(len(episode.turns)):
        thoughts = model.drawn[8 * number : 8 * (number + 1)]
        own = [row for row in rows if row.turn == number]
        assert {(row.thoughts, row.samples, row.greedy) for row in own} == {(8, None, False)}
        for position in (0, 1):
            mean = sum(SHARES.get(thought, (0.0, 0.0))[position] for thought in thoughts) / 8
            assert math.exp(own[position].log_probability) == pytest.approx(mean)
        residual = sum(1 - sum(SHARES.get(thought, ())) for thought in thoughts) / 8
        assert math.exp(own[-1].log_probability) == pytest.approx(residual)
        assert own[-1].kind == "residual"
    assert set(model.drawn) == {SURE, UNSURE, ENDLESS}
    assert set(model.scored) == {SURE, UNSURE}
    whole = sum(thought in SHARES for thought in model.drawn)
    assert sum(turn.reply.prompt_tokens for turn in episode.turns) == 10 * len(model.drawn) + 3 * whole


def test_a_model_that_does_not_think_is_exact(demo_data: Path) -> None:
    model = Thinker([""])
    rows = ask(model, demo_data).options
    assert {row.thoughts for row in rows} == {None}
    assert set(model.scored) == {""}
    assert any(row.greedy for row in rows)


def test_without_thoughts_no_reply_is_drawn(demo_data: Path) -> None:
    model = Thinker([SURE])
    ask(model, demo_data, VARIANTS["every-state"])  # type: ignore[arg-type]
    assert not model.drawn and set(model.scored) == {""}


@pytest.mark.parametrize(
    ("reply", "thought"),
    [
        ("A", ""),
        ("<think>Cup.</think>\n\nA. Cup.", "<think>Cup.</think>\n\n"),
        ("<think>A</think> <think>B</think> ", "<think>A</think> <think>B</think> "),
        ("<think>Cup", ""),
        ("<think>A</think>\n<think>B", ""),
    ],
)
def test_a_reply_is_cut_after_its_thought(reply: str, thought: str) -> None:
    assert split_thought(reply) == thought


def test_thoughts_are_part_of_the_key_and_need_every_state() -> None:
    plain = VARIANTS["every-state"]
    assert THOUGHTS.identity == {**plain.identity, "thoughts": 8}
    assert "thoughts" not in plain.identity
    with pytest.raises(ValueError, match="thoughts need every_state = true"):
        OwnCondition(name="mine", thoughts=4)
