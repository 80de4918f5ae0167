"""CPUs and GPUs of a replica of each group, and the share of the cluster that each pool may take."""

from __future__ import annotations

from dataclasses import replace

from actors.in_flight import expected
from orchestrator.planning.plan import group, judge_group
from orchestrator.scheduling.commands import JUDGES, Demand
from sweeps.spec import Judge, ModelSpec, Sweep

ENGINE_CPUS = 4
"""CPUs beside a GPU: pictures are decoded and the engine's own front end runs there."""
MOST_REPLICAS = 64


def demands(sweep: Sweep, cpus: float, gpus: int) -> dict[str, Demand]:
    """What a replica of each group, the judge's included, takes of a cluster with so many CPUs and GPUs."""
    found = {group(model): _demand(model, sweep.cluster.workers, cpus, gpus) for model in sweep.models}
    if sweep.judge is None or not _has_workers(sweep):
        return found
    name = judge_group(sweep.judge)
    found = {writer: replace(demand, judge=name) for writer, demand in found.items()}
    judge = _judge(sweep.judge, cpus, gpus, alone=_alone(sweep, gpus))
    return {**found, name: _serving(judge, _reserve(sweep, gpus)) if sweep.serving_judge else judge}


def shares(sweep: Sweep, gpus: int) -> dict[str, float]:
    """Pool -> GPUs it may take at once: what the sweep says; by default an eighth for the judge, but one replica at least.

    Models that are done leave theirs to the judge. Where it cannot stand beside the models, each takes all in turn.
    """
    said: dict[str, float] = dict(sweep.cluster.shares)
    if not _has_workers(sweep) or not _reserve(sweep, gpus) or _alone(sweep, gpus):
        return said
    return {"models": gpus - _reserve(sweep, gpus), **said}


def _reserve(sweep: Sweep, gpus: int) -> float:
    """GPUs kept for the judge, a multiple of what one replica takes."""
    size = sweep.judge.model.gpus if sweep.judge else 0
    wanted = sweep.cluster.judge_gpus or max(size, gpus // 8)
    return wanted // size * size if size else 0


def _alone(sweep: Sweep, gpus: int) -> bool:
    """Whether the judge cannot have GPUs beside the widest model: then all answers are written first.

    Where episodes wait for it that is no way out: models too wide to stand beside it are left out (``Scheduler``).
    """
    if sweep.serving_judge:
        return False
    widest = max(model.gpus for model in sweep.models)
    return bool(widest and _reserve(sweep, gpus) and widest > gpus - _reserve(sweep, gpus))


def _has_workers(sweep: Sweep) -> bool:
    """Whether its judge has a group of workers."""
    return sweep.judged or sweep.serving_judge is not None


def _serving(judge: Demand, reserve: float) -> Demand:
    """The demand of a judge that stands beside the models: as many replicas as its GPUs hold, without one a single engine.

    On a machine without GPUs engines share the processors, so it takes none away.
    """
    if not judge.gpus:
        return replace(judge, cpus=0, replicas=1, serves=1)
    return replace(judge, serves=max(1, min(judge.replicas, int(reserve // judge.gpus))))


def _judge(judge: Judge, cpus: float, gpus: int, alone: bool) -> Demand:
    """Rules and services read beside everything else; they take no CPU worth counting."""
    demand = _demand(judge.model, judge.replicas, cpus, gpus)
    if judge.model.backend in ("builtin", "openai"):
        demand = replace(demand, cpus=0, replicas=1)
    return replace(demand, pool=JUDGES, after=alone, at_once=expected(judge.model))


def _demand(model: ModelSpec, workers: int | None, cpus: float, gpus: int) -> Demand:
    """An engine on a GPU wants four CPUs beside it, as far as there are; a service needs one caller, which paces itself."""
    if model.gpus:
        width = max(1, int(model.gpus))  # a shared GPU has the CPUs of a whole one
        beside = max(0, min(ENGINE_CPUS, int(cpus) * width // max(1, gpus)))
        return Demand(beside, model.gpus, workers or MOST_REPLICAS, expected(model), model.accelerator)
    if model.backend == "openai":
        return Demand(cpus=0, gpus=0, replicas=1, at_once=expected(model), unhurried=model.batch)
    if model.backend == "vllm":
        return Demand(cpus=max(1, int(cpus)), gpus=0, replicas=1)
    return Demand(cpus=1, gpus=0, replicas=workers or max(1, int(cpus)))
