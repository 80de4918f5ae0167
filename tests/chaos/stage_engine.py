"""A stand-in for vLLM's engine: a policy that answers through one Ray process per GPU of the worker's placement group.

After the loss of one of these processes it hangs, as a collective on GPUs does; it never reports the loss itself.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actors.engine.backend import Reply, Request
from actors.engine.baselines import Baseline
from sweeps.spec import ModelSpec

SITE = """import sys, types

def engine(name):
    import importlib

    return getattr(importlib.import_module("tests.chaos.stage_engine"), name)

module = types.ModuleType("actors.engine.vllm.backend")
module.__getattr__ = engine
sys.modules[module.__name__] = module
"""
"""Content of a ``sitecustomize.py`` by which the worker's processes load the stand-in instead of vLLM."""
STEP_S = 0.3


@ray.remote(num_cpus=0, num_gpus=1)
class Stage:
    """The process of one pipeline stage."""

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    async def step(self) -> None:
        await asyncio.sleep(STEP_S)


class VLLMBackend(Baseline):
    """The policy ``uniform`` in pipeline stages."""

    def __init__(self, model: ModelSpec, data: Path) -> None:
        super().__init__("uniform")
        group: Any = ray.util.get_current_placement_group()
        assert model.is_over_nodes and group.bundle_count == model.gpus, "the worker is in a group with all GPUs"
        within = (PlacementGroupSchedulingStrategy(group, number) for number in range(group.bundle_count))
        self.stages = [Stage.options(scheduling_strategy=place).remote() for place in within]  # type: ignore[attr-defined]
        nodes = ray.get([stage.node.remote() for stage in self.stages])
        print("stages on", *nodes, flush=True)

    async def reply(self, request: Request) -> Reply:
        try:
            for stage in self.stages:
                await stage.step.remote()
        except RayError:
            await asyncio.Event().wait()
        return await super().reply(request)
