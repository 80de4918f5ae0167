"""The CPUs and GPUs of a replica of each group, the share of the cluster that each pool may use, and the GPUs to ask for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from actors.engine.in_flight import choose_in_flight
from orchestrator.planning.plan import judge_group, worker_group
from orchestrator.scheduling.commands import JUDGES, Demand
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.placement import Placement
from orchestrator.scheduling.state import LEASES_PER_WORKER, WorkerGroup
from sweeps.spec import Judge, ModelSpec, Sweep

ENGINE_CPUS = 4
"""CPUs per GPU; they decode pictures and run the engine's front end."""
MAX_REPLICAS = 64
STARTS_OF_WORK = 4.0
"""A replica is worth asking for if it has work for at least so many times its start time."""
MAX_BUNDLES = 1000

Bundle = dict[str, float]
"""Resource (with Ray's name) -> amount that one replica needs."""


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
    return {**groups, name: _judge(sweep, sweep.judge, cpus_for_engines if sweep.judge.model.gpus else cpus, gpus)}


def shares(sweep: Sweep, gpus: int) -> dict[str, float]:
    """Return pool -> GPUs it may use at once; a pool that is missing may use all.

    The sweep's settings come first. Without one, an eighth of the GPUs is kept free for the judge, or the GPUs of one replica if
    that is more; the judge may use all that models leave. If the widest model and the judge do not fit at once, they take turns.
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


def _judge(sweep: Sweep, judge: Judge, cpus: float, gpus: int) -> Demand:
    """Return the demand of the judge; rules and services use so little CPU that they reserve none.

    A judge that runs while the models play keeps as many replicas as fit the reserved GPUs; without GPUs, it is one engine that
    shares the CPUs of the other workers.
    """
    demand, serves = _demand(judge.model, judge.replicas, cpus, gpus), sweep.serving_judge is not None
    if judge.model.backend in ("builtin", "openai") or (serves and not demand.gpus):
        demand = replace(demand, cpus=0, replicas=1)
    fitting = int(_reserve(sweep, gpus) // demand.gpus) if demand.gpus else 1
    return replace(
        demand, pool=JUDGES, after_writers=_needs_all_gpus(sweep, gpus), concurrency=choose_in_flight(judge.model),
        standing_replicas=max(1, min(demand.replicas, fitting)) if serves else 0,
    )  # fmt: skip


def _demand(model: ModelSpec, workers: int | None, cpus: float, gpus: int) -> Demand:
    """Return the demand of a model; ``workers`` limits its replicas.

    An engine reserves its part of the CPUs, at most ``ENGINE_CPUS``; a service has one worker and no CPU.
    """
    if model.gpus:
        width = max(1, int(model.gpus))  # a shared GPU gets the CPUs of a whole GPU
        engine_cpus = max(0, min(ENGINE_CPUS, int(cpus) * width // max(1, gpus)))
        replicas, at_once = workers or MAX_REPLICAS, choose_in_flight(model)
        return Demand(engine_cpus, model.gpus, replicas, at_once, model.accelerator)
    if model.backend == "openai":
        return Demand(cpus=0, gpus=0, replicas=1, concurrency=choose_in_flight(model))
    if model.backend == "vllm":
        return Demand(cpus=max(1, int(cpus)), gpus=0, replicas=1)
    return Demand(cpus=1, gpus=0, replicas=workers or max(1, int(cpus)))


def wanted_bundles(placement: Placement, limits: Mapping[str, float]) -> list[Bundle]:
    """Return one bundle per replica that pending work could use, widest first.

    Replicas that run already are included. ``limits``: pool -> GPUs that the sweep may use at most. CPUs are left out, because
    the nodes determine how many there are per GPU.
    """
    room = dict(limits)
    bundles = list[Bundle]()
    for group in sorted(placement.groups.values(), key=lambda group: -group.demand.gpus):
        gpus, pool = group.demand.gpus, group.demand.pool
        for _ in range(_wanted_replicas(placement, group) if gpus else 0):
            if room.get(pool, gpus) < gpus:
                break
            room[pool] = room.get(pool, float("inf")) - gpus
            kind = group.demand.accelerator
            bundles.append({"GPU": gpus} | ({f"accelerator_type:{kind}": 0.001} if kind else {}))
    return bundles[:MAX_BUNDLES]


def _wanted_replicas(placement: Placement, group: WorkerGroup) -> int:
    work, standing = placement.remaining(group), placement.required_replicas(group)
    if group.abandoned or not work:
        return standing
    if group.start_s:
        worth_starting = work / group.rate / (STARTS_OF_WORK * group.start_s)
    else:
        worth_starting = work / (LEASES_PER_WORKER * group.demand.concurrency)
    return min(group.demand.replicas, max(1, standing, int(worth_starting)))
