"""What the connected cluster has, and what a replica takes of it: asked of Ray, decided nowhere else."""

from __future__ import annotations

import os
from typing import Any

import ray

from orchestrator.nodes import Node
from orchestrator.orders import Demand
from orchestrator.plan import group
from sweeps.spec import ModelSpec, Sweep

ENGINE_CPUS = 4
"""CPUs beside a GPU: pictures are decoded and the engine's own front end runs there."""
MOST_REPLICAS = 64


def demands(sweep: Sweep, cpus: float, gpus: int) -> dict[str, Demand]:
    """What a replica of each group of models takes of a cluster with so many CPUs and GPUs."""
    return {group(model): _demand(model, sweep.cluster.workers, cpus, gpus) for model in sweep.models}


def _demand(model: ModelSpec, workers: int | None, cpus: float, gpus: int) -> Demand:
    """An engine on a GPU wants four CPUs beside it, as far as there are; a service needs one caller, which paces itself."""
    if model.gpus:
        beside = max(0, min(ENGINE_CPUS, int(cpus) * model.gpus // max(1, gpus)))
        return Demand(beside, model.gpus, workers or MOST_REPLICAS, model.in_flight, model.accelerator)
    if model.backend == "openai":
        return Demand(cpus=0, gpus=0, replicas=1)
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
