"""``models try`` on a Ray cluster: one model after the other is loaded by a worker of its own and tried there.

A model that fails does not stop the next.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.text.printable import first_line
from actors.trial.trial import TrialReport
from actors.worker import Worker
from orchestrator.datasets.node_staging import stage_on_node
from orchestrator.execution import ray_cluster
from orchestrator.execution.driver import START_TIMEOUT_S
from orchestrator.execution.gpu_placement import GpuPlacement
from orchestrator.execution.losses import last_line
from orchestrator.execution.model_packages import packages_arguments, worker_options
from orchestrator.inspection import model_try
from orchestrator.inspection.model_try import Row
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.commands import Start
from orchestrator.scheduling.nodes import Nodes, Place
from orchestrator.scheduling.resources import demands
from sweeps.spec import ModelSpec, Sweep

TRIAL_TIMEOUT_S = 3600.0
"""Seconds that the episodes and the comparison of one model may take."""


def try_models(models: Sequence[ModelSpec], sweep: Path | None, data: Path | None) -> Iterator[Row]:
    """Yield each model's row when its trial ends; raises SweepError or BadData before the first if one has nothing to play."""
    plans = [model_try.plan_trial(model, sweep, data) for model in models]
    ray_cluster.connect()
    for model, (trial_sweep, plan) in zip(models, plans, strict=True):
        yield asyncio.run(_try_model(model, trial_sweep, plan))


async def _try_model(model: ModelSpec, sweep: Sweep, plan: Plan) -> Row:
    cpus, gpus = ray_cluster.capacity()
    nodes, placement = Nodes(ray_cluster.gpu_nodes()), GpuPlacement()
    demand = next(iter(demands(sweep, cpus, gpus, nodes.nodes).values()))
    place = nodes.tightest_fit(demand.gpus, demand.accelerator) if demand.gpus else Place()
    if place is None:
        return Row(model.name, wrong=f"it needs {demand.gpu_text}; no node of the cluster has them")
    options = {**placement.options(Start(1, model.name, Place()), demand), **worker_options([model])}
    arguments = [ray.put(plan), [model], str(Path(sweep.data).resolve()), None, None, *packages_arguments([model])]
    worker = Worker.options(**options).remote(*arguments)  # type: ignore[attr-defined]
    try:
        return await _run_trial(worker, model, sweep, plan)
    except TimeoutError:
        return Row(model.name, wrong=f"it was not ready within {START_TIMEOUT_S:.0f} s, or not done within an hour")
    except RayTaskError as problem:
        return Row(model.name, wrong=first_line(problem.cause or problem))
    except RayActorError as problem:
        return Row(model.name, wrong=last_line(problem))
    finally:
        ray.kill(worker)
        placement.close()


async def _run_trial(worker: Any, model: ModelSpec, sweep: Sweep, plan: Plan) -> Row:
    async with asyncio.timeout(START_TIMEOUT_S):
        address = await worker.address.remote()
    staged = await stage_on_node(sweep, address.node, address.host)
    started_at = time.monotonic()
    async with asyncio.timeout(START_TIMEOUT_S):
        await worker.start.remote(staged)
    load_seconds = time.monotonic() - started_at
    async with asyncio.timeout(TRIAL_TIMEOUT_S):
        trial: TrialReport = await worker.try_model.remote(list(range(plan.total)))
    return model_try.trial_row(model, load_seconds, trial)
