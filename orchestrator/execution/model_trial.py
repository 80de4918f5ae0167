"""Each model is loaded by a worker of its own, one after the other, and tried there; one that fails does not stop the others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from actors.trial import Tried, sentence
from actors.worker import Worker
from orchestrator.datasets.node_staging import NodeStaging
from orchestrator.execution import ray_cluster
from orchestrator.execution.driver import START_TIMEOUT_S, plain
from orchestrator.inspection import model_try
from orchestrator.inspection.model_try import Row
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.forecast.throughput import KIND, Observed, add_observed
from orchestrator.scheduling.resources import demands
from sweeps.load import SweepError
from sweeps.spec import ModelSpec, Sweep
from sweeps.values import gpus_told

TRIAL_TIMEOUT_S = 3600.0
"""Seconds that the episodes and the comparison of one model may take."""


def tried(models: Sequence[ModelSpec], sweep: Path | None, data: Path | None, rates: Path) -> Iterator[Row]:
    """A row a model, as each is done; what was seen of their pace is added to ``rates.json`` of the folder ``rates``.

    Raises SweepError or BadData where nothing can be played.
    """
    plans = [model_try.planned(model, sweep, data) for model in models]
    ray_cluster.connect()
    for model, (found, plan) in zip(models, plans, strict=True):
        row = asyncio.run(_row(model, found, plan))
        _keep(rates, model, found, row)
        yield row


async def _row(model: ModelSpec, sweep: Sweep, plan: Plan) -> Row:
    cpus, gpus = ray_cluster.capacity()
    if model.gpus > gpus:
        return Row(model.name, wrong=f"it takes {gpus_told(model.gpus)}, the cluster has {gpus}")
    demand = next(iter(demands(sweep, cpus, gpus).values()))
    kind = {"accelerator_type": model.accelerator} if model.accelerator else {}
    worker = Worker.options(num_gpus=demand.gpus, num_cpus=demand.cpus, **kind).remote(  # type: ignore[attr-defined]
        ray.put(plan), [model], str(Path(sweep.data).resolve()), None
    )
    try:
        return await _tried(worker, model, sweep, plan)
    except TimeoutError:
        return Row(model.name, wrong=f"it was not ready within {START_TIMEOUT_S:.0f} s, or not done within an hour")
    except RayTaskError as problem:
        return Row(model.name, wrong=sentence(problem.cause or problem))
    except RayActorError as problem:
        return Row(model.name, wrong=plain(problem))
    finally:
        ray.kill(worker)


async def _tried(worker: Any, model: ModelSpec, sweep: Sweep, plan: Plan) -> Row:
    stages = NodeStaging(sweep)
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            place = await worker.place.remote()
        staged = await stages.folder(place.node, place.host)
        began = time.monotonic()
        async with asyncio.timeout(START_TIMEOUT_S):
            await worker.ready.remote(staged)
        loads = time.monotonic() - began
        async with asyncio.timeout(TRIAL_TIMEOUT_S):
            found: Tried = await worker.tried.remote(list(range(plan.total)))
        return model_try.judged(model, loads, found)
    finally:
        stages.close()


def _keep(folder: Path, model: ModelSpec, sweep: Sweep, row: Row) -> None:
    """Add what was seen of a model on GPUs, where a forecast of a sweep beside that folder finds it."""
    nodes = ray_cluster.gpu_nodes()
    kind = KIND.get(model_try.protocol(sweep), "")
    if not (nodes and nodes[0].accelerator and model.gpus and row.rate and row.loads is not None and kind):
        return
    front_end = row.front.ceiling if row.front else 0.0
    seen = Observed(row.episodes, row.episodes / row.rate, (row.loads,), front_end)
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        add_observed(folder, nodes[0].accelerator, {kind: {model.name: seen}})


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise SweepError(f"--output {folder} cannot be written to: {problem.strerror or problem}") from None
