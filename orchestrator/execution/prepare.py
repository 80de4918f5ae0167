"""The steps before an attempt plays: find what is pending, announce it, and record the pictures that models will see."""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from envs.types import Ending
from orchestrator.datasets.sources import parse_address
from orchestrator.execution.attempt_state import AttemptState
from orchestrator.execution.live_control import take_waiting_commands
from orchestrator.execution.retry_failed import requeue_episodes
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import planned_cells
from orchestrator.report.scores.precision_stops import describe_savings
from orchestrator.storage import reused
from orchestrator.storage.control_log import read_control_state

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
