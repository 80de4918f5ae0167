"""The CPUs and GPUs of a replica of each group, and the share of the cluster that each pool may use."""

import math
from collections.abc import Sequence
from dataclasses import replace

from actors.engine.in_flight import expected_in_flight
from orchestrator.planning.plan import judge_group, worker_group
from orchestrator.scheduling.commands import JUDGES, Demand
from orchestrator.scheduling.nodes import Node
from sweeps.spec import Judge, ModelSpec, Sweep

ENGINE_CPUS = 4
"""CPUs per GPU; they decode pictures and run the engine's front end."""
MAX_REPLICAS = 64


def demands(sweep: Sweep, cpus: float, gpus: int, nodes: Sequence[Node] = ()) -> dict[str, Demand]:
    """Return the demand of each group, including the judge's, on a cluster with this many CPUs and GPUs.

    ``nodes`` are the nodes with GPUs. The node with the fewest CPUs per GPU limits the CPUs of every engine, so that an engine
    can run on any of them.
    """
    per_gpu = min((node.cpus / node.gpus for node in nodes), default=math.inf)
    cpus_for_engines = min(cpus, per_gpu * max(1, gpus))
    groups = {
        worker_group(model): _demand(model, sweep.cluster.workers, cpus_for_engines if model.gpus else cpus, gpus)
        for model in sweep.models
    }
    if sweep.judge is None or not _has_workers(sweep):
        return groups
    name = judge_group(sweep.judge)
    groups = {writer: replace(demand, judge=name) for writer, demand in groups.items()}
    judge_cpus = cpus_for_engines if sweep.judge.model.gpus else cpus
    judge = _judge(sweep.judge, judge_cpus, gpus, after_writers=_needs_all_gpus(sweep, gpus))
    return {**groups, name: _serving(judge, _reserve(sweep, gpus)) if sweep.serving_judge else judge}


def shares(sweep: Sweep, gpus: int) -> dict[str, float]:
    """Return pool -> GPUs it may use at once; a pool that is missing may use all.

    By the sweep's settings; without one, an eighth of the GPUs, but at least one replica, is kept free for the judge. The judge
    may use all GPUs that models leave. If the widest model and the judge do not fit at once, each uses all GPUs in turn.
    """
    configured: dict[str, float] = dict(sweep.cluster.shares)
    if not _has_workers(sweep) or not _reserve(sweep, gpus) or _needs_all_gpus(sweep, gpus):
        return configured
    return {"models": gpus - _reserve(sweep, gpus), **configured}


def _reserve(sweep: Sweep, gpus: int) -> float:
    """Return the GPUs reserved for the judge, a multiple of the GPUs of one replica; 0 for a judge without GPUs."""
    size = sweep.judge.model.gpus if sweep.judge else 0
    wanted = sweep.cluster.judge_gpus or max(size, gpus // 8)
    return wanted // size * size if size else 0


def _needs_all_gpus(sweep: Sweep, gpus: int) -> bool:
    """Return True if the judge and the widest model do not fit at once, so that all answers are written before it starts.

    False if episodes wait for the judge; the scheduler then abandons models that are too wide to run beside it.
    """
    if sweep.serving_judge:
        return False
    widest = max(model.gpus for model in sweep.models)
    return bool(widest and _reserve(sweep, gpus) and widest > gpus - _reserve(sweep, gpus))


def _has_workers(sweep: Sweep) -> bool:
    return sweep.is_judged or sweep.serving_judge is not None


def _serving(judge: Demand, reserve: float) -> Demand:
    """Return the demand of a judge that runs while the models play: it keeps as many replicas as fit the reserved GPUs.

    A judge without GPUs is one engine; it reserves no CPUs and shares them with the other workers.
    """
    if not judge.gpus:
        return replace(judge, cpus=0, replicas=1, standing_replicas=1)
    return replace(judge, standing_replicas=max(1, min(judge.replicas, int(reserve // judge.gpus))))


def _judge(judge: Judge, cpus: float, gpus: int, after_writers: bool) -> Demand:
    """Return the demand of a judge; rules and services use so little CPU that they reserve none."""
    demand = _demand(judge.model, judge.replicas, cpus, gpus)
    if judge.model.backend in ("builtin", "openai"):
        demand = replace(demand, cpus=0, replicas=1)
    return replace(demand, pool=JUDGES, after_writers=after_writers, concurrency=expected_in_flight(judge.model))


def _demand(model: ModelSpec, workers: int | None, cpus: float, gpus: int) -> Demand:
    """Return the demand of a model; ``workers`` limits its replicas.

    An engine reserves its part of the CPUs, at most ``ENGINE_CPUS``; a service has one worker and no CPU.
    """
    if model.gpus:
        width = max(1, int(model.gpus))  # a shared GPU gets the CPUs of a whole GPU
        engine_cpus = max(0, min(ENGINE_CPUS, int(cpus) * width // max(1, gpus)))
        replicas, at_once = workers or MAX_REPLICAS, expected_in_flight(model)
        return Demand(engine_cpus, model.gpus, replicas, at_once, model.accelerator)
    if model.backend == "openai":
        return Demand(cpus=0, gpus=0, replicas=1, concurrency=expected_in_flight(model))
    if model.backend == "vllm":
        return Demand(cpus=max(1, int(cpus)), gpus=0, replicas=1)
    return Demand(cpus=1, gpus=0, replicas=workers or max(1, int(cpus)))
