"""What the connected cluster has, and what a replica takes of it: asked of Ray, decided nowhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.worker import busy, printed
from orchestrator.placement.nodes import Node
from orchestrator.placement.orders import Demand
from orchestrator.plan import group, judge_group
from sweeps.spec import Judge, ModelSpec, Sweep

ENGINE_CPUS = 4
"""CPUs beside a GPU: pictures are decoded and the engine's own front end runs there."""
MOST_REPLICAS = 64


def demands(sweep: Sweep, cpus: float, gpus: int) -> dict[str, Demand]:
    """What a replica of each group, the judge's included, takes of a cluster with so many CPUs and GPUs."""
    found = {group(model): _demand(model, sweep.cluster.workers, cpus, gpus) for model in sweep.models}
    if not sweep.judged:
        return found
    assert sweep.judge is not None
    name = judge_group(sweep.judge)
    found = {writer: replace(demand, judge=name) for writer, demand in found.items()}
    return {**found, name: _judge(sweep.judge, cpus, gpus, alone=_alone(sweep, gpus))}


def shares(sweep: Sweep, gpus: int) -> dict[str, int]:
    """Pool -> GPUs it may take at once: what the sweep says; by default an eighth for the judge, but one replica at least.

    Models that are done leave theirs to the judge. Where it cannot stand beside the models, each takes all in turn.
    """
    said = sweep.cluster.shares
    if not sweep.judged or not _reserve(sweep, gpus) or _alone(sweep, gpus):
        return said
    return {"models": gpus - _reserve(sweep, gpus), **said}


def _reserve(sweep: Sweep, gpus: int) -> int:
    """GPUs kept for the judge, a multiple of what one replica takes."""
    size = sweep.judge.model.gpus if sweep.judge else 0
    wanted = sweep.cluster.judge_gpus or max(size, gpus // 8)
    return wanted // size * size if size else 0


def _alone(sweep: Sweep, gpus: int) -> bool:
    """Whether the judge cannot have GPUs beside the widest model: then all answers are written first."""
    widest = max(model.gpus for model in sweep.models)
    return bool(widest and _reserve(sweep, gpus) and widest > gpus - _reserve(sweep, gpus))


def _judge(judge: Judge, cpus: float, gpus: int, alone: bool) -> Demand:
    """Rules and services read beside everything else; they take no CPU worth counting."""
    demand = _demand(judge.model, judge.replicas, cpus, gpus)
    if judge.model.backend in ("builtin", "openai"):
        demand = replace(demand, cpus=0, replicas=1)
    return replace(demand, pool="judges", after=alone, at_once=judge.model.in_flight)


def _demand(model: ModelSpec, workers: int | None, cpus: float, gpus: int) -> Demand:
    """An engine on a GPU wants four CPUs beside it, as far as there are; a service needs one caller, which paces itself."""
    if model.gpus:
        beside = max(0, min(ENGINE_CPUS, int(cpus) * model.gpus // max(1, gpus)))
        return Demand(beside, model.gpus, workers or MOST_REPLICAS, model.in_flight, model.accelerator)
    if model.backend == "openai":
        return Demand(cpus=0, gpus=0, replicas=1, at_once=model.in_flight)
    if model.backend == "vllm":
        return Demand(cpus=max(1, int(cpus)), gpus=0, replicas=1)
    return Demand(cpus=1, gpus=0, replicas=workers or max(1, int(cpus)))


def capacity() -> tuple[float, int]:
    """CPUs and GPUs of the connected cluster."""
    resources = ray.cluster_resources()
    return float(resources.get("CPU", 1)), int(resources.get("GPU", 0))


def gpu_nodes() -> tuple[Node, ...]:
    """The connected cluster's living nodes that have GPUs, by name, with the kind that Ray found there."""
    found = []
    for node in ray.nodes():
        resources = node["Resources"]
        kinds = [name.partition(":")[2] for name in resources if name.startswith("accelerator_type:")]
        if node["Alive"] and resources.get("GPU", 0) >= 1:
            found.append(Node(node["NodeID"], int(resources["GPU"]), kinds[0] if kinds else ""))
    return tuple(sorted(found, key=lambda node: node.name))


def here() -> str:
    """Ray's name of the node that this process is on."""
    return str(ray.get_runtime_context().get_node_id())


async def printed_on(node: str, streams: Sequence[str]) -> str:
    """The kept part of what a worker printed, read by a task on its node; raises RayError when that node is gone."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return str(await printed.options(scheduling_strategy=there).remote(list(streams)))


def hosts() -> dict[str, str]:
    """Living nodes -> their hosts."""
    return {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


async def busy_on(node: str) -> dict[str, float]:
    """How busy a node is, measured by a task there; raises RayError when it is gone."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return dict(await busy.options(scheduling_strategy=there).remote())


def connect() -> None:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine without dashboard."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if os.environ.get("RAY_ADDRESS"):
        ray.init(**common)
    else:
        ray.init(address="local", include_dashboard=False, num_cpus=os.cpu_count() or 1, **common)
