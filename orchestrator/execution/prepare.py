"""The steps before an attempt plays: find what is pending, announce it, and leave out models that cannot start."""

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from actors.node.nvml import DriverUnavailable, devices
from actors.text.printable import printable
from envs.errors import RunFolderError
from envs.types import Ending
from orchestrator.datasets.sources import parse_address
from orchestrator.execution.attempt_state import AttemptState
from orchestrator.execution.live_control import take_waiting_commands
from orchestrator.execution.ray_access import cluster_address
from orchestrator.execution.retry_failed import requeue_episodes
from orchestrator.inspection.certificate import forget_certificates
from orchestrator.inspection.model_check import local_fault
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import planned_cells
from orchestrator.planning.plan import judge_group
from orchestrator.report.scores.precision_stops import describe_savings
from orchestrator.storage import reused
from orchestrator.storage.control_log import read_control_state
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.loaded_weights import LoadedWeights
from sweeps.spec import Judge, ModelSpec, Sweep

AMD_DRIVER = Path("/dev/kfd")
"""Exists on machines with AMD GPUs, which NVML does not count."""
log = logging.getLogger(__name__)


def find_pending(state: AttemptState, retry: Collection[Ending], reuse: Sequence[tuple[str, Path]]) -> None:
    """Apply reused episodes, retries and waiting commands; then set the pending episodes and the judge, and store the plan."""
    if reuse:
        _reuse_episodes(state, reuse)
    if retry:
        count = requeue_episodes(state.store, state.plan, state.log.folder, retry)
        state.say(f"{count:,} {' and '.join(retry)} episodes are pending again")
    reused.drop_unstored(state.output)
    take_waiting_commands(state.output, state.plan)
    state.find_stops()
    state.replan()
    state.pending = state.plan.pending(state.store.finished_episodes()["key"])
    state.standing = read_control_state(state.output)
    if (judge := state.sweep.judge) and state.sweep.is_judged:
        backlog = state.find_unjudged(judge)
        if backlog or state.playable:
            state.judge_queue = JudgeQueue(judge, state.plan, state.store, backlog)


def _reuse_episodes(state: AttemptState, folders: Sequence[tuple[str, Path]]) -> None:
    from orchestrator.merging import reuse

    sources = reuse.find_reusable(state.sweep, state.plan, state.output, folders)
    for source in sources:
        for line in source.lines:
            state.say(line)
    episode_count = reuse.store_reused_episodes(state.store, sources)
    verdict_count = reuse.store_reused_verdicts(state.sweep, state.output, sources)
    log.info("%d episodes and %d verdicts are reused from other folders", episode_count, verdict_count)
    if verdict_count:
        state.say(f"{verdict_count:,} verdicts are reused")


def announce(state: AttemptState) -> None:
    """Print the size of the sweep, what is pending, and which cells are paused, cancelled or stopped."""
    pending, total = sum(map(len, state.pending.values())), state.plan.total_with_stops
    backlog = state.judge_queue.backlog if state.judge_queue else ()
    state.say(
        f"{state.sweep.name}: {len(state.plan.cells)} cells, {total:,} episodes, {total - pending:,} finished,"
        f" {pending:,} pending" + (f", {len(backlog):,} answers to judge" if backlog else "")
    )
    unfinished = {state.plan.cells[index].key: None for index in state.plan.pending_per_cell(state.pending)}
    savings = describe_savings(state.plan.precision, planned_cells(state.plan))
    for line in (*state.standing.sentences(unfinished), *savings):
        state.say(line)


@contextmanager
def recording_shown_pictures(state: AttemptState) -> Iterator[None]:
    """Record, while the block runs, the pictures of a local data folder that the planned models see."""
    recorded = not state.pending and (state.output / pictures.FILE).exists()
    local = parse_address(state.sweep.data) is None
    if recorded or not local or not any(map(pictures.ShownPictures.uses_pictures, state.plan.cells)):
        yield
        return
    with pictures.recording_pictures(state.output, Path(state.sweep.data), state.plan) as stop:
        yield
        if state.interrupted:
            stop.set()


# -- models that cannot start -------------------------------------------------------------------------------------------
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
    """Raise RunFolderError if this machine has other weights of a pending model than its stored episodes were played with.

    On a cluster each worker checks its own weights when it starts.
    """
    weights = LoadedWeights(state.output)
    played = set(episodes(state.output).select("model").unique().collect()["model"])
    weights.forget({model.name for model in state.sweep.models} - played)
    forget_certificates(state.output, played)
    for model in state.sweep.models if _is_single_machine() else ():
        if model.name in state.pending and (reason := weights.mismatch(model)):
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
    tried, excluded = dict[str, str](), dict[str, str]()
    for (name, model), fault in zip(models.items(), faults, strict=True):
        if limit is not None and model.gpus > limit and name in pending:
            excluded[name] = (
                f"it needs {model.gpus:g} GPUs, and cluster.gpus = {limit} allows fewer; raise cluster.gpus"
            )
        elif reason := fault or (_lacks_gpus(model) if alone else ""):
            (excluded if alone else tried)[name] = reason
    for reasons, consequence in ((excluded, "it is not started"), (tried, "the cluster's machines try it")):
        for name, reason in reasons.items():
            print(printable(f"{name}: {reason} ({consequence})"), file=sys.stderr, flush=True)
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
    return not cluster_address() and not _has_joined_cluster()


def _has_joined_cluster() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())
