"""The first step of an attempt, and the state that its steps share: what is pending, and which cells have stopped."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import polars as pl

from envs.types import CUT_SHORT, ERRORS, Ending
from orchestrator.execution.live_control import describe_effect
from orchestrator.execution.stop_signals import StopSignals
from orchestrator.judging.judge_queue import JudgeQueue, find_unjudged
from orchestrator.planning.build_plan import planned_cells, stored_episodes
from orchestrator.planning.plan import Plan, worker_group
from orchestrator.precision.stopping import StoppingRule, load_rule
from orchestrator.storage import reused, run_folder
from orchestrator.storage.control_log import ControlState, read_control_state, take_commands
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.load import SweepError
from sweeps.spec import Sweep

RETRIED = (*ERRORS, *CUT_SHORT)
"""Endings that may be played again: none of them is an answer of the model."""


@dataclass
class AttemptState:
    """Everything that the steps of one attempt share."""

    sweep: Sweep
    plan: Plan
    output: Path
    store: EpisodeStore
    say: Callable[[str], None]
    """Prints a line on standard output."""
    signals: StopSignals
    pending: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Worker group -> ordinals to play."""
    played: Set[str] = frozenset()
    """Names of the models with stored episodes."""
    judge_queue: JudgeQueue | None = None
    """Set if a judge reads open-ended answers in this attempt."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Worker group, or pattern of cells (a ``RequestGroup`` as text) -> why it stopped."""
    interrupted: bool = False
    seconds: float = 0.0
    """Seconds from connecting to Ray until the last episode is on disk."""
    standing: ControlState = field(default_factory=ControlState)
    """The commands of ``ctl`` that are in force, such as pauses and cancellations."""
    rule: StoppingRule = field(init=False)
    """The precision rule with the answers so far; for a plan without one it stops no cell."""
    stops: Mapping[int, int] = field(default_factory=dict)
    """Index of a cell that is precise enough -> its samples that count; ``plan.stops`` follows by ``replan``."""

    @property
    def playable(self) -> set[str]:
        """The groups with pending episodes of cells that are not cancelled."""
        indexes = [n for n, cell in enumerate(self.plan.cells) if self.standing.find("cancel", cell.key)]
        cancelled = self.plan.ordinals(indexes)
        return {name for name, queue in self.pending.items() if not cancelled.issuperset(queue)}

    def find_stops(self) -> None:
        """Find the cells whose stored episodes are precise enough; leave their remaining episodes out of the plan."""
        self.rule = load_rule(self.plan, self.output)
        self.stops = self.rule.stops()
        self.plan = self.plan.with_stops(self.stops)

    def take_new_stops(self) -> Iterator[tuple[str, frozenset[int]]]:
        """Yield the worker group and all ordinals of each cell that has become precise enough since the last call."""
        before, self.stops = self.stops, self.rule.stops()
        for index in self.stops.keys() - before.keys():
            yield worker_group(self.plan.cells[index].model), self.plan.ordinals([index])

    def replan(self) -> None:
        """Apply the current stops to the plan and write it to the run folder."""
        self.plan = self.plan.with_stops(self.stops)
        run_folder.write_plan(self.output, planned_cells(self.plan), self.plan.all_keys())

    def planned_per_group(self) -> Counter[str]:
        """Return worker group -> planned episodes, up to the stops."""
        counts = Counter[str]()
        for index, cell in enumerate(self.plan.cells):
            counts[worker_group(cell.model)] += self.plan.size(index)
        return counts


def find_pending(state: AttemptState, retry: Collection[Ending], reuse: Sequence[tuple[str, Path]]) -> None:
    """Apply reused episodes, retries and waiting commands; then set the pending episodes and the judge, and store the plan."""
    if reuse:
        from orchestrator.merging.reuse import take_over

        for line in take_over(state.sweep, state.plan, state.store, reuse):
            state.say(line)
    if retry:
        count = requeue_episodes(state.store, state.plan, retry)
        state.say(f"{count:,} {' and '.join(retry)} episodes are pending again")
    reused.drop_unstored(state.output)
    take_commands(state.output, lambda command: describe_effect(command, state.plan))
    state.find_stops()
    state.replan()
    finished = state.store.finished_episodes()
    state.pending, state.played = state.plan.pending(finished["key"]), set(finished["model"])
    state.standing = read_control_state(state.output)
    if (judge := state.sweep.judge) and state.sweep.is_judged:
        backlog = find_unjudged(state.plan, state.output, judge)
        queue = JudgeQueue(judge, state.plan, state.store, backlog)
        state.judge_queue = queue if backlog or state.playable or queue.rereads_gold else None


def announce(state: AttemptState) -> None:
    """Print the size of the sweep, what is pending, and which cells are paused, cancelled or stopped."""
    plan, pending = state.plan, sum(map(len, state.pending.values()))
    backlog = state.judge_queue.backlog if state.judge_queue else ()
    state.say(
        f"{state.sweep.name}: {len(plan.cells)} cells, {plan.total_with_stops:,} episodes,"
        f" {plan.total_with_stops - pending:,} finished, {pending:,} pending"
        + (f", {len(backlog):,} answers to judge" if backlog else "")
    )
    indexes = plan.cells_of(chain.from_iterable(state.pending.values()))
    unfinished = dict.fromkeys(plan.cells[index].key for index in indexes)
    savings = [plan.precision.describe_savings(planned_cells(plan))] if plan.precision else []
    for line in (*state.standing.sentences(unfinished), *savings):
        state.say(line)


# -- ``--retry`` -------------------------------------------------------------------------------------------------------
def parse_endings(text: str) -> tuple[Ending, ...]:
    """Return the endings that ``--retry failed,overflow`` names; raises SweepError for a name that is not in ``RETRIED``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    choices = ",".join(RETRIED)
    for name in names:
        if name not in RETRIED:
            raise SweepError(f"--retry {name!r}: not an ending that can be retried; type one or more of {choices}")
    return tuple(map(Ending, names))


def requeue_episodes(store: EpisodeStore, plan: Plan, endings: Collection[Ending] = (Ending.FAILED,)) -> int:
    """Make the episodes with these endings pending again; return how many. After a crash, the same command goes on."""
    store.flush()
    selected = pl.col("ending").is_in([str(ending) for ending in endings])
    keys = set(stored_episodes(plan, store.folder).filter(selected).select("key").collect()["key"])
    if keys:
        store.discard(keys)
    return len(keys)
