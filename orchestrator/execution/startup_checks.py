"""The checks before Ray starts: each model and judge can start on this machine, with the weights that the run has used."""

import os
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from actors.node.nvml import DriverUnavailable, devices
from actors.text.printable import say
from envs.errors import RunFolderError
from orchestrator.execution.prepare import AttemptState
from orchestrator.inspection import overflow
from orchestrator.inspection.certificate import forget_certificates
from orchestrator.inspection.model_check import local_fault
from orchestrator.planning.plan import Plan, judge_group
from orchestrator.storage.loaded_weights import LoadedWeights
from sweeps.load import skipped_products
from sweeps.registry import describe_code, describe_requirements
from sweeps.spec import Judge, ModelSpec, Sweep

AMD_DRIVER = Path("/dev/kfd")
"""Exists on machines with AMD GPUs, which NVML does not count."""


def warnings(sweep: Sweep, plan: Plan) -> Iterator[str]:
    """Yield what a user should know of the models: code and packages that they run, what is left out, what may overflow."""
    for model in sweep.models_and_judge:
        yield from filter(None, (describe_code(model), describe_requirements(model)))
    yield from (f"left out: {reason}" for reason in (*skipped_products(sweep), *plan.left_out))
    yield from overflow.lines(plan)


def check_models(state: AttemptState) -> None:
    """Leave out models that cannot start on this machine, and print the reasons before Ray starts."""
    queue, serving_judge = state.judge_queue, state.sweep.serving_judge
    judge = queue.judge if queue else serving_judge
    state.reasons = find_startup_errors(state.sweep, state.pending, judge)
    if queue and queue.stop_reason:
        state.reasons = {**state.reasons, queue.group: queue.stop_reason}
    if judge and (reason := state.reasons.get(judge_group(judge))):
        state.judge_queue = None
        if serving_judge:
            writers = dict.fromkeys(state.pending, f"its judge cannot start: {reason}")
            state.reasons = {**writers, **state.reasons}


def check_weights(state: AttemptState) -> None:
    """Raise RunFolderError if this machine has other weights, or another template, than a model's stored episodes.

    A model that has played all its episodes is checked, too: its source names the figures in the report. On a cluster each
    worker checks its own weights when it starts.
    """
    weights = LoadedWeights(state.output)
    weights.forget({model.name for model in state.sweep.models} - state.played)
    forget_certificates(state.output, state.played)
    for model in state.sweep.models if _is_single_machine() else ():
        if reason := weights.mismatch(model):
            raise RunFolderError(reason)


def find_startup_errors(sweep: Sweep, pending: Collection[str], judge: Judge | None) -> dict[str, str]:
    """Return group -> why it cannot start, for groups with pending work and the judge; print each reason on stderr.

    On a cluster, other machines may have what this one lacks, so only a model wider than ``cluster.gpus`` is returned.
    """
    models = {model.name: model for model in sweep.models if model.backend != "builtin" and model.name in pending}
    if judge is not None:
        models[judge_group(judge)] = judge.model
    with ThreadPoolExecutor(8) as pool:  # services are asked side by side
        faults = pool.map(lambda model: local_fault(model, sweep.samplings(model.name)), models.values())
    alone, limit = _is_single_machine(), sweep.cluster.gpus
    excluded = dict[str, str]()
    for (name, model), fault in zip(models.items(), faults, strict=True):
        reason, is_final = fault or (_lacks_gpus(model) if alone else ""), alone
        if limit is not None and model.gpus > limit and name in pending:
            reason = f"it needs {model.gpus:g} GPUs, and cluster.gpus = {limit} allows fewer; raise cluster.gpus"
            is_final = True
        if reason and is_final:
            excluded[name] = reason
        if reason:
            consequence = "no worker is started" if is_final else "the cluster's machines try it"
            say(f"{name}: {reason} ({consequence})")
    return excluded


def _lacks_gpus(model: ModelSpec) -> str:
    """Return that this machine has fewer GPUs than the model needs; empty if it has them, or if nobody knows."""
    if not model.gpus or AMD_DRIVER.exists():
        return ""
    try:
        count = len(devices())
    except DriverUnavailable:
        count = 0
    remedy = 'write gpus = 0 and backend = "transformers" to play it on the CPU, or join a cluster (RAY_ADDRESS)'
    wanted = "a GPU" if model.gpus <= 1 else f"{model.gpus:g} GPUs"
    return f"it needs {wanted}, and this machine has {count or 'none'}; {remedy}" if model.gpus > count else ""


def _is_single_machine() -> bool:
    """Return True if this process neither has joined nor will join a cluster; does not import Ray."""
    has_joined = "ray" in sys.modules and sys.modules["ray"].is_initialized()
    return os.environ.get("RAY_ADDRESS", "") in ("", "local") and not has_joined
