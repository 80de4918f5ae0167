"""The probabilities of options: summed by the game's own reading, equal to a plain forward pass, and stored as rows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the embedded model needs torch (extra `transformers`)")
pytest.importorskip("transformers", reason="the embedded model needs transformers (extra `transformers`)")

import torch

from actors.engine.backend import Request
from actors.engine.batching import Job
from actors.engine.hf.backend import TransformersBackend
from actors.engine.registry import open_engine
from actors.playing.play import Episode, play
from actors.playing.records import episode_row
from envs.samples import load_samples
from proactive_operating.option_scores import ScoredReply
from proactive_operating.reply_scores import ReplyScore, score_replies
from proactive_operating.rules import EveryState
from proactive_operating.state_graph import build_graph
from sweeps.conditions import VARIANTS
from sweeps.registry import registry
from sweeps.sampling import Sampling
from sweeps.spec import Cell

EVERY_STATE = VARIANTS["every-state"]


@pytest.fixture(scope="module")
def engine(demo_data: Path) -> Iterator[TransformersBackend]:
    opened = open_engine(registry()["embedded"], demo_data)
    assert isinstance(opened, TransformersBackend)
    yield opened
    asyncio.run(opened.close())


def cell(model: str, scenario: str) -> Cell:
    return Cell(model=registry()[model], scenario=scenario, condition=EVERY_STATE)


@pytest.fixture(scope="module")
def episode(engine: TransformersBackend, demo_data: Path) -> Episode:
    return asyncio.run(play(load_samples(demo_data, "QD")[0], cell("embedded", "QD"), engine, "key", seed=1))


@pytest.mark.parametrize("thought", ["", "It is behind the blocks. "])
def test_scores_are_those_of_a_forward_pass_over_prompt_and_reply(
    engine: TransformersBackend, demo_data: Path, thought: str
) -> None:
    sample = load_samples(demo_data, "QD")[0]
    prompt = EveryState(sample, EVERY_STATE, 0).pose(EveryState(sample, EVERY_STATE, 0).initial(), ())
    request = Request(prompt.messages, Sampling(), 1, prompt.situation)
    replies = [*prompt.situation.view.categories, "A", "A.", "B. " + prompt.situation.view.options[1]]

    async def ask() -> tuple[ReplyScore, ...]:
        return (await score_replies(engine, request, replies, thought)).scores

    scores = asyncio.run(ask())
    model = engine.model
    pictures = asyncio.run(engine.pictures.load(request.messages))
    inputs = model.inputs([Job(request, pictures)])
    before = model.decoder(thought, add_special_tokens=False)["input_ids"]
    for reply, score in zip(replies, scores, strict=True):
        ids = model.decoder(reply, add_special_tokens=False)["input_ids"]
        whole = torch.cat([inputs["input_ids"], torch.tensor([[*before, *ids]])], 1)
        with torch.inference_mode():
            fields = {**inputs, "input_ids": whole, "attention_mask": torch.ones_like(whole)}
            logits = model.network(**fields).logits[0].float().log_softmax(-1)
        start = inputs["input_ids"].shape[1] + len(before) - 1
        written = sum(logits[start + number, token].item() for number, token in enumerate(ids))
        ended = logits[-1, sorted(model.stops)].logsumexp(0).item()
        assert score.log_probability == pytest.approx(written + ended, abs=1e-4)


def test_an_episode_asks_every_question_once_and_stores_its_options(episode: Episode) -> None:
    graph = build_graph(episode.sample, EVERY_STATE)
    assert len(episode.turns) == len(graph.questions) > 1
    rows = episode.options
    assert len(rows) == sum(len(question.options) + 1 for question in graph.questions)
    for number, question in enumerate(graph.questions):
        own = [row for row in rows if row.turn == number]
        assert [row.option for row in own] == [*question.options, None]
        assert sum(math.exp(row.log_probability) for row in own) == pytest.approx(1.0, abs=1e-6)
        assert own[-1].kind == "residual"
        assert {row.kind for row in own} >= {"right", "wrong"}
        assert sum(row.greedy for row in own) == 1
    assert episode_row(cell("embedded", "QD"), episode).correct is None


def test_the_greedy_option_is_the_greedy_reply(engine: TransformersBackend, episode: Episode) -> None:
    rules = EveryState(episode.sample, EVERY_STATE, 0)
    for number, state in enumerate(rules.states):
        prompt = rules.pose(state, ())
        reply = asyncio.run(engine.reply(Request(prompt.messages, Sampling(), 1, prompt.situation)))
        scored = episode.turns[number].reply
        assert isinstance(scored, ScoredReply)
        best = next(index for index, option in enumerate(scored.options) if option.greedy)
        assert (*build_graph(episode.sample, EVERY_STATE).questions[number].options, "")[best] == reply.text
