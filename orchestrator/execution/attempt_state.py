"""The state of an attempt at a run folder: its plan and store, its pending episodes, and how it ended."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from actors.playing.records import EpisodeBatch
from orchestrator.execution.stop_signals import StopSignals
from orchestrator.execution.worker_logs import AttemptLog
from orchestrator.judging.judge_queue import JudgeQueue, find_unjudged
from orchestrator.planning.build_plan import planned_rows, stored_episodes
from orchestrator.planning.plan import Plan, worker_group
from orchestrator.precision.stopping import load_rule
from orchestrator.storage import run_folder
from orchestrator.storage.control_log import ControlState
from orchestrator.storage.episode_store import EpisodeStore
from sweeps.spec import Judge, Sweep


class PreciseStops:
    """The stops of a plan's precision rule; empty for a plan without a rule."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.rule = load_rule(plan, folder)
        self.stops = self.rule.stops()
        """Index of a stopped cell -> its samples that count, as far as the stored episodes decide."""
        self.changed = False
        """True if the plan in the run folder does not have the latest stops yet."""

    def add_batch(self, batch: EpisodeBatch) -> None:
        if self.rule.units:
            for row in zip(batch.ordinals, batch.episodes["ending"], batch.episodes["correct"], strict=True):
                self.rule.add_answer(*row)

    def take_new_stops(self) -> dict[str, set[int]]:
        """Return group -> all ordinals of those of its cells that have stopped since the last call."""
        if not self.rule.units:
            return {}
        plan, stops = self.rule.plan, self.rule.stops()
        ordinals: dict[str, set[int]] = {}
        for index in stops.keys() - self.stops.keys():
            episodes = range(plan.offsets[index], plan.offsets[index + 1])
            ordinals.setdefault(worker_group(plan.cells[index].model), set()).update(episodes)
        self.stops, self.changed = stops, self.changed or bool(ordinals)
        return ordinals


@dataclass
class AttemptState:
    """Everything that the steps of one attempt share."""

    sweep: Sweep
    plan: Plan
    output: Path
    store: EpisodeStore
    log: AttemptLog
    say: Callable[[str], None]
    """Prints a line on standard output."""
    signals: StopSignals
    pending: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Worker group -> ordinals to play."""
    judge_queue: JudgeQueue | None = None
    """Set if a judge reads open-ended answers in this attempt."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Worker group, or pattern of cells (a ``RequestGroup`` as text) -> why it stopped."""
    interrupted: bool = False
    seconds: float = 0.0
    """Seconds from connecting to Ray until the last episode is on disk."""
    standing: ControlState = field(default_factory=ControlState)
    """The commands of ``ctl`` that are in force, such as pauses and cancellations."""
    stops: PreciseStops = field(init=False)
    """The cells that have stopped because they are precise enough."""

    @property
    def playable(self) -> Mapping[str, Sequence[int]]:
        """Group -> pending ordinals of cells that are not cancelled."""
        cancelled = {index for index, cell in enumerate(self.plan.cells) if self.standing.canceling_command(cell.key)}
        if not cancelled:
            return self.pending
        queues = {
            name: [ordinal for ordinal in queue if self.plan.task(ordinal)[0] not in cancelled]
            for name, queue in self.pending.items()
        }
        return {name: queue for name, queue in queues.items() if queue}

    def find_stops(self) -> None:
        """Find the cells whose stored episodes are precise enough; leave their remaining episodes out of the plan."""
        self.stops = PreciseStops(self.plan, self.output)
        self.plan = self.plan.with_stops(self.stops.stops)

    def replan(self) -> pl.DataFrame:
        """Apply the current stops to the plan and write it to the run folder; return one row per planned cell."""
        self.stops.changed, self.plan = False, self.plan.with_stops(self.stops.stops)
        planned = planned_rows(self.plan)
        run_folder.write_plan(self.output, planned, self.plan.all_keys())
        return planned

    def find_unjudged(self, judge: Judge, again: bool = False) -> list[int]:
        """Return the ordinals of the stored answers that the judge has not read; with ``again`` also those without a verdict."""
        return find_unjudged(self.plan, stored_episodes(self.plan, self.output), self.output, judge, again)
