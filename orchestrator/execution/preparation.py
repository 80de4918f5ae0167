"""The steps before an attempt plays: find what is pending, announce it, and leave out models that cannot start here."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from actors.text.printable import printable
from envs.types import Ending
from orchestrator.datasets.sources import parse_address
from orchestrator.execution.attempt_state import AttemptState
from orchestrator.execution.live_control import take_waiting_commands
from orchestrator.execution.retry_failed import requeue_episodes
from orchestrator.inspection.certificate import forget_certificates
from orchestrator.inspection.model_check import local_fault
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import planned_cells
from orchestrator.planning.plan import judge_group
from orchestrator.report.scores.precision_stops import describe_savings
from orchestrator.storage import reused
from orchestrator.storage.control_state import read_control_state
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.loaded_weights import LoadedWeights
from orchestrator.storage.lock import RunFolderError
from sweeps.spec import Judge, Sweep

log = logging.getLogger(__name__)


def find_pending(state: AttemptState, retry: Collection[Ending], reuse: Sequence[tuple[str, Path]]) -> None:
    """Set the pending episodes, after reused episodes, retries and waiting commands, and store the plan."""
    if reuse:
        _reuse_episodes(state, reuse)
    if retry:
        count = len(requeue_episodes(state.store, state.plan, state.log.folder, retry))
        state.say(f"{count:,} {' and '.join(retry)} episodes are pending again")
    reused.drop_unstored(state.output)
    take_waiting_commands(state.output, state.sweep, state.plan, state.store, state.log.folder)
    state.find_stops()
    state.replan()
    state.pending = state.plan.pending(set(state.store.finished_episodes()["key"]))
    state.standing = read_control_state(state.output)
    state.judge_queue = _build_judge_queue(state)


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


def _build_judge_queue(state: AttemptState) -> JudgeQueue | None:
    """Return the queue of the sweep's own judge if there is, or will be, an answer to read."""
    judge = state.sweep.judge
    if not state.sweep.is_judged or judge is None:
        return None
    backlog = state.find_unjudged(judge)
    return JudgeQueue(judge, state.plan, state.store, backlog) if backlog or state.playable else None


def announce(state: AttemptState) -> None:
    """Print the size of the sweep, what is pending, and which cells are paused, cancelled or stopped."""
    pending = sum(map(len, state.pending.values()))
    backlog = state.judge_queue.backlog if state.judge_queue else ()
    state.say(
        f"{state.sweep.name}: {len(state.plan.cells)} cells, {state.plan.total_with_stops:,} episodes,"
        f" {state.plan.total_with_stops - pending:,} finished, {pending:,} pending"
        + (f", {len(backlog):,} answers to judge" if backlog else "")
    )
    unfinished = {state.plan.cells[index].key: None for index in state.plan.pending_per_cell(state.pending)}
    savings = describe_savings(state.plan.precision, planned_cells(state.plan))
    for line in (*state.standing.sentences(unfinished), *savings):
        state.say(line)


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
    """Raise RunFolderError if this machine has other weights of a pending model than the run; clusters check in each worker."""
    weights = LoadedWeights(state.output)
    played = set(episodes(state.output).select("model").unique().collect()["model"])
    weights.forget({model.name for model in state.sweep.models} - played)
    forget_certificates(state.output, played)
    if not _is_single_machine():
        return
    for model in state.sweep.models:
        if model.name in state.pending and (reason := weights.mismatch(model)):
            raise RunFolderError(reason)


def find_startup_errors(sweep: Sweep, pending: Collection[str], judge: Judge | None) -> dict[str, str]:
    """Return group -> why it cannot start here, for groups with pending work and the judge; print each reason on stderr.

    On a cluster, other machines may have what this one lacks, so the reasons are only printed.
    """
    models = {model.name: model for model in sweep.models if model.backend != "builtin" and model.name in pending}
    if judge is not None:
        models[judge_group(judge)] = judge.model
    errors = {
        name: reason for name, model in models.items() if (reason := local_fault(model, sweep.samplings(model.name)))
    }
    single_machine = _is_single_machine()
    for name, reason in errors.items():
        consequence = "it is not started" if single_machine else "the cluster's machines try it"
        print(printable(f"{name}: {reason} ({consequence})"), file=sys.stderr, flush=True)
    return errors if single_machine else {}


def _is_single_machine() -> bool:
    """Return True if this process neither has joined nor will join a cluster; Ray is not imported."""
    return os.environ.get("RAY_ADDRESS", "") in ("", "local") and not _has_joined_cluster()


def _has_joined_cluster() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


@contextmanager
def recording_shown_pictures(state: AttemptState) -> Iterator[None]:
    """Inside the block, record the pictures of a local data folder that models are to see."""
    recorded = not state.pending and (state.output / pictures.FILE).exists()
    local = parse_address(state.sweep.data) is None
    if recorded or not local or not any(map(pictures.ShownPictures.uses_pictures, state.plan.cells)):
        yield
        return
    with pictures.recording_pictures(state.output, Path(state.sweep.data), state.plan) as stop:
        yield
        if state.interrupted:
            stop.set()
