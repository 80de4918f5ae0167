"""A service's ``top_logprobs`` give the options of a model that replies with letters; any other service is sampled."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.registry import open_engine
from actors.playing.play import Episode, play
from envs.samples import load_samples
from proactive_operating.option_scores import SAMPLES
from sweeps.conditions import VARIANTS
from sweeps.endpoint import Endpoint
from sweeps.spec import Cell, ModelSpec
from tests.actors.service import Answer, Service, completion, failure, serving

EVERY_STATE = VARIANTS["every-state"]


def with_logprobs(chances: dict[str, float]) -> Answer:
    status, headers, body = completion(max(chances, key=lambda token: chances[token]), "length")
    tokens = [{"token": token, "logprob": math.log(chance), "bytes": None} for token, chance in chances.items()]
    body["choices"][0]["logprobs"] = {"content": [{**tokens[0], "top_logprobs": tokens}]}
    return status, headers, body


def map_states(data: Path, answer: Any, **endpoint: Any) -> tuple[Episode, Service, Cell]:
    async def run() -> tuple[Episode, Service, Cell]:
        async with serving(answer) as service:
            entry = Endpoint(base_url=service.url, key_env="", **endpoint)
            model = ModelSpec(name="m", source="m", backend="openai", gpus=0, endpoint=entry)
            cell = Cell(model=model, scenario="COCO", condition=EVERY_STATE)
            engine = open_engine(model, data)
            try:
                return await play(load_samples(data, "COCO")[0], cell, engine, "key", 1), service, cell
            finally:
                await engine.close()

    return asyncio.run(run())


def test_letters_are_summed_and_other_tokens_are_the_residual(demo_data: Path) -> None:
    chances = {"A": 0.5, " A": 0.1, "B.": 0.2, "C": 0.15, "The": 0.05}
    episode, service, _ = map_states(demo_data, lambda number, body: with_logprobs(chances))
    assert len(service.bodies) == len(episode.turns), "one request per question"
    assert {(b["logprobs"], b["top_logprobs"], b["max_completion_tokens"]) for b in service.bodies} == {(True, 20, 1)}
    rows = [row for row in episode.options if row.turn == 0]
    assert [math.exp(row.log_probability) for row in rows[:3]] == pytest.approx([0.6, 0.2, 0.15])
    assert math.exp(rows[-1].log_probability) == pytest.approx(0.05)
    assert [row.greedy for row in rows] == [True] + [False] * (len(rows) - 1)
    assert {row.samples for row in rows} == {None}


@pytest.mark.parametrize(
    ("answer", "endpoint", "asked"),
    [
        (with_logprobs({"The": 0.6, "A": 0.4}), {}, 1 + SAMPLES),
        (completion("A"), {}, 1 + SAMPLES),
        (completion("A"), {"decoding": False}, SAMPLES),
    ],
    ids=["no letters", "no log-probabilities", "a reasoning model"],
)
def test_other_services_are_sampled(demo_data: Path, answer: Answer, endpoint: dict[str, Any], asked: int) -> None:
    episode, service, _ = map_states(demo_data, lambda number, body: answer, **endpoint)
    assert len(service.bodies) == asked * len(episode.turns)
    assert {row.samples for row in episode.options} == {SAMPLES}


def test_a_service_that_refuses_log_probabilities_is_asked_for_them_once(demo_data: Path) -> None:
    def answer(number: int, body: dict[str, Any]) -> Answer:
        refusal = failure(400, "unsupported_parameter", "'logprobs' is not supported with this model.")
        return refusal if "logprobs" in body else completion("B")

    episode, service, _ = map_states(demo_data, answer)
    assert episode.error is None
    assert sum("logprobs" in body for body in service.bodies) == 1
    assert {row.samples for row in episode.options} == {SAMPLES}
