"""The options of a model behind a service are scored by samples of its replies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.registry import open_engine
from actors.playing.play import Episode, play
from envs.samples import load_samples
from proactive_operating.option_scores import SAMPLES
from sweeps.conditions import VARIANTS
from sweeps.model import Endpoint
from sweeps.spec import Cell, ModelSpec
from tests.actors.service import Service, completion, serving


def test_a_service_is_sampled(demo_data: Path) -> None:
    async def run() -> tuple[Episode, Service]:
        async with serving(lambda number, body: completion("A")) as service:
            entry = Endpoint(base_url=service.url, key_env="")
            model = ModelSpec(name="m", source="m", backend="openai", gpus=0, endpoint=entry)
            cell = Cell(model=model, scenario="COCO", condition=VARIANTS["every-state"])
            engine = open_engine(model, demo_data)
            try:
                return await play(load_samples(demo_data, "COCO")[0], cell, engine, "key", 1), service
            finally:
                await engine.close()

    episode, service = asyncio.run(run())
    assert len(service.bodies) == SAMPLES * len(episode.turns)
    assert {row.samples for row in episode.options} == {SAMPLES}
