"""The forecast of overflow against what an engine's front end then refuses, on tiny checkpoints with published tilings."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")

from actors.engine.backend import Overflow, Request, Situation
from actors.engine.hf.backend import TransformersBackend
from actors.engine.registry import open_without_weights
from envs import SCENARIOS
from envs.types import State
from orchestrator.inspection.overflow import risks
from orchestrator.inspection.prompt_preview import build_prompt
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.load import build
from sweeps.sampling import Sampling
from tests.actors.architectures import published_sizes, write
from tests.benchmark import copy_benchmark


def plan_of(data: Path, folder: Path) -> Plan:
    """Return the plan of icl-3 on MVP-N alone."""
    model = {"name": "m", "source": str(folder), "backend": "transformers", "gpus": 0}
    table = {"data": str(data), "model": [model], "conditions": ["icl-3"], "scenarios": ["MVP-N"]}
    return build_plan(build(table, "x.toml"))


def set_context(folder: Path, tokens: int) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = tokens
    (folder / "config.json").write_text(json.dumps(config))


async def lengths(plan: Plan, data: Path) -> list[int | None]:
    """Return the tokens of each episode's first prompt by the engine's front end; None if it is refused as too long."""
    (cell,) = plan.cells
    backend: TransformersBackend = open_without_weights(cell.model, data)
    counts: list[int | None] = []
    try:
        for sample in plan.cell_samples(cell):
            view = SCENARIOS[cell.scenario].view(sample, State(0))
            prompt = build_prompt(sample, plan.pools[cell.scenario], cell, plan.seed)
            request = Request(prompt, Sampling(), 0, Situation(sample, State(0), view))
            try:
                counts.append(len(await backend.token_ids(request)))
            except Overflow:
                counts.append(None)
    finally:
        await backend.close()
    return counts


def check_forecast(name: str, folder: Path, size: tuple[int, int]) -> None:
    """Compare at a context between two numbers of pictures, with pictures of this width and height."""
    data = folder / "data"
    copy_benchmark(data, scenarios=["MVP-N"])
    for path in (data / "MVP-N").rglob("*.*"):
        Image.open(path).convert("RGB").resize(size).save(path)
    with published_sizes(name):
        checkpoint = write(name, folder / "model")
    set_context(checkpoint, 1_000_000)
    plan = plan_of(data, checkpoint)
    counts = [count for count in asyncio.run(lengths(plan, data)) if count]
    assert risks(plan, data) == [] and len(counts) == len(plan.cell_samples(plan.cells[0]))
    ordered = sorted(counts)
    gap, below = max((high - low, low) for low, high in pairwise(ordered))
    for tokens in (below + gap // 2, ordered[0] // 2):
        set_context(checkpoint, tokens)
        refused = sum(count is None for count in asyncio.run(lengths(plan, data)))
        (risk,) = risks(plan, data)
        assert (risk.first, risk.episodes, risk.planned) == (refused, refused, len(counts))
        assert "by processor" in risk.reason
    assert refused == len(counts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llava-next-mistral", "idefics3"])
@pytest.mark.long
def test_as_many_first_prompts_overflow_as_the_forecast_says(name, tmp_path):
    check_forecast(name, tmp_path, (640, 480))
