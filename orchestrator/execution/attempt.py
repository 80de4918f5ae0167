"""One attempt at a run folder: play what is pending or judge what is unread, then score what is stored.

Everything that must outlive the attempt is in the run folder; a later attempt needs nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from envs.types import ERRORS, Ending
from orchestrator.datasets.sources import address
from orchestrator.execution.applied import Applied, Playable
from orchestrator.execution.before_start import hopeless
from orchestrator.execution.cell_states import cell_states
from orchestrator.execution.circuit_breaker import CircuitBreaker
from orchestrator.execution.live_control import LiveControl, asked_for, take_waiting
from orchestrator.execution.outcome import Outcome as Outcome
from orchestrator.execution.precise_stops import PreciseStops
from orchestrator.execution.retry_failed import take_back
from orchestrator.execution.scored import all_read, answering, stored_by_cell
from orchestrator.execution.scored import scored as scored
from orchestrator.execution.stop_signals import StopSignals
from orchestrator.execution.worker_logs import AttemptLog, attempt_log
from orchestrator.judging.judge_queue import JudgeQueue, check_wording, unread
from orchestrator.monitoring.progress import Progress
from orchestrator.planning.build_plan import belonging, build_plan, planned_cells, planned_rows
from orchestrator.planning.pictures import FILE as PICTURES
from orchestrator.planning.pictures import Recorder, ShownPictures
from orchestrator.planning.plan import Plan, group, judge_group
from orchestrator.report.cell_resources import with_resources
from orchestrator.report.decision_map import Stored, with_decisions
from orchestrator.report.judge_agreement import own
from orchestrator.report.metrics import write_results
from orchestrator.report.own_measures import with_own
from orchestrator.report.stopped import told
from orchestrator.scheduling.forecast.throughput import write_observed
from orchestrator.storage import reused, run_folder
from orchestrator.storage.control_log import Standing, standing
from orchestrator.storage.disk import disk
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.tracking.cell_metrics import CellMetricsPublisher
from orchestrator.tracking.dataset import described
from orchestrator.tracking.rollup import Roster
from orchestrator.tracking.system_metrics import SystemMetrics
from orchestrator.tracking.tracker import Tracker, parameters
from sweeps.spec import Judge, Sweep

if TYPE_CHECKING:
    from orchestrator.execution.driver import Driver
    from orchestrator.execution.result_sink import ResultSink

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S, CLOSE_TIMEOUT_INTERRUPTED_S = 60.0, 2.0
"""Seconds that MLflow gets at the end to take what it lacks; and where somebody stopped the run."""


def judge(
    sweep: Sweep, output: Path, reader: Judge, again: bool = False, say: Callable[[str], None] = print
) -> tuple[pl.DataFrame, bool]:
    """Have the stored answers of a run folder read by a judge, ``again`` those too that it could give no verdict on.

    Answers the scored rows by this judge, and whether it has read everything that is stored. ``sweep`` is the folder's
    own; its results.json is written anew where the reader is its own judge, or it had none. Raises RunFolderError.
    """
    check_wording(reader, sweep)
    sweep = sweep if sweep.judge else sweep.model_copy(update={"judge": reader})
    with opened(sweep, build_plan(sweep), output, say) as attempt:
        return attempt.judge(reader, again)


@contextmanager
def opened(
    sweep: Sweep,
    plan: Plan,
    output: Path,
    say: Callable[[str], None],
    update: bool = False,
    signals: StopSignals | None = None,
) -> Iterator[Attempt]:
    """An attempt that holds its run folder until the block ends; raises RunFolderError."""
    claim = run_folder.claim(output, sweep, update, plan.left_out)
    held = nullcontext(signals) if signals else StopSignals()
    with held as stop, disk(output), claim, attempt_log(output) as log:
        store = EpisodeStore(output)
        try:
            yield Attempt(sweep, plan, output, store, log, say, stop)
        finally:
            store.close()


@dataclass
class Attempt:
    """What one attempt holds: the claimed run folder, what is pending, and what playing it came to."""

    sweep: Sweep
    plan: Plan
    output: Path
    store: EpisodeStore
    log: AttemptLog
    say: Callable[[str], None]
    """Takes the lines that the user reads on standard output."""
    signals: StopSignals
    pending: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Group of models -> ordinals to play."""
    judge_queue: JudgeQueue | None = None
    """Of the judge that reads open-ended answers, where there is or will be one to read."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Group -> why it could not go on."""
    interrupted: bool = False
    cluster_lost: bool = False
    """Whether it was Ray that interrupted it."""
    changeable: bool = False
    """Whether the sweep may become another one (``ctl apply``): then ``run`` raises Applied."""
    next: Playable | None = None
    """What the sweep has become."""
    seconds: float = 0.0
    """From the first start of a worker to the last durable episode."""
    standing: Standing = field(default_factory=Standing)
    """What somebody has paused or cancelled."""
    stops: PreciseStops = field(init=False)
    """The cells that have stopped by precision."""

    def run(
        self,
        retry: Collection[Ending] = (),
        reuse: Sequence[tuple[str, Path]] = (),
        play: Callable[[Attempt], None] | None = None,
    ) -> Outcome:
        """Play what is pending, with ``play`` in place of workers, have new answers judged, and score what the folder holds."""
        self._find_pending(retry, reuse)
        self._leave_if_applied()
        self._announce()
        tracker = self._start_tracker()
        if not play:
            self._check_models()
        with self._pictures_recorded():
            if play and self.pending:
                play(self)
            elif asked_for(self.plan, self.pending, self.standing).keys() - self.reasons.keys() or self.judge_queue:
                metrics = None if tracker.off else CellMetricsPublisher(self._scored, tracker.cell)
                self._play(tracker, metrics)
        tracker.hurry()
        if self.next:
            tracker.close("KILLED", CLOSE_TIMEOUT_INTERRUPTED_S)
        self._leave_if_applied()
        if not self.interrupted:
            self._compact()
        outcome = self._write_results()
        self._close_tracker(tracker, outcome)
        return outcome

    def _leave_if_applied(self) -> None:
        if self.next:
            raise Applied(self.next)

    def judge(self, reader: Judge, again: bool) -> tuple[pl.DataFrame, bool]:
        """Have the judge read stored answers; the scored rows by it, and whether it has read all of them."""
        self._find_stops()
        backlog = self._unread(reader, again)
        queue = self.judge_queue = JudgeQueue(reader, self.plan, self.store, backlog)
        self.say(f"{self.sweep.name}: {len(backlog):,} answers to read by {queue.key}")
        if backlog:
            self.reasons = hopeless(self.sweep, (), reader)
            if not self.reasons:
                self._play(Tracker("none", "", self.output, {}, ""))
            for reason in self.reasons.values():
                self.say(f"{queue.key}: {reason}")
            queue.verdicts.compact()
        rows = self._with_own(scored(self.plan, self.output, queue.key))
        if own(self.sweep) == queue.key:
            write_results(self.output, rows)
        return rows, not self._unread(reader)

    def _find_stops(self) -> None:
        """Leave out of the plan what comes after a stop, by what is stored."""
        self.stops = PreciseStops(self.plan, self.output)
        self.plan = self.plan.stopped(self.stops.stops)

    def _replan(self) -> pl.DataFrame:
        """Take the stops of this moment into the plan, and write it down; one row a planned cell."""
        self.stops.changed, self.plan = False, self.plan.stopped(self.stops.stops)
        planned = planned_rows(self.plan)
        run_folder.write_plan(self.output, planned, self.plan.all_keys())
        return planned

    # -- before -------------------------------------------------------------------------------------------------------
    def _find_pending(self, retry: Collection[Ending], reuse: Sequence[tuple[str, Path]]) -> None:
        """Settle what this attempt has to play, with what was asked while nobody played, and write the plan down."""
        if reuse:
            self._take_over(reuse)
        if retry:
            again = take_back(self.store, self.plan, self.log.folder, retry)
            self.say(f"{again:,} {' and '.join(retry)} episodes are pending again")
        reused.settle(self.output)
        playing = Playable(self.sweep, self.plan)
        self.next = take_waiting(self.output, playing, self.store, self.log.folder, self.changeable)
        self._find_stops()
        self._replan()
        self.pending = self.plan.pending(set(self.store.finished()["key"]))
        self.standing = standing(self.output)
        self.judge_queue = self._own_judge_queue()

    def _take_over(self, folders: Sequence[tuple[str, Path]]) -> None:
        """Take over what the folders have of what is pending; nothing is played here."""
        from orchestrator.merging import reuse

        found = reuse.reusable(self.sweep, self.plan, self.output, folders)
        for line in (line for one in found for line in one.lines):
            self.say(line)
        taken = reuse.take(self.store, found)
        read = reuse.take_verdicts(self.sweep, self.output, found)
        log.info("%d episodes and %d verdicts are taken over from other folders", taken, read)
        if read:
            self.say(f"{read:,} verdicts are taken over")

    def _own_judge_queue(self) -> JudgeQueue | None:
        """The queue of the sweep's own judge, where there is or will be something to read."""
        judge = self.sweep.judge
        if not self.sweep.judged or judge is None:
            return None
        backlog = self._unread(judge)
        some = backlog or asked_for(self.plan, self.pending, self.standing)
        return JudgeQueue(judge, self.plan, self.store, backlog) if some else None

    def _check_models(self) -> None:
        """Leave out what cannot start here, and say so before Ray starts."""
        queue, serving = self.judge_queue, self.sweep.serving_judge
        reader = queue.judge if queue else serving
        self.reasons = hopeless(self.sweep, self.pending, reader)
        if reader and (why := self.reasons.get(judge_group(reader))):
            self.judge_queue = None
            if serving:
                self.reasons = {**dict.fromkeys(self.pending, f"its judge cannot start: {why}"), **self.reasons}

    def _unread(self, judge: Judge, again: bool = False) -> list[int]:
        return unread(self.plan, belonging(self.plan, self.output), self.output, judge, again)

    def _announce(self) -> None:
        left = sum(map(len, self.pending.values()))
        backlog = self.judge_queue.backlog if self.judge_queue else ()
        self.say(
            f"{self.sweep.name}: {len(self.plan.cells)} cells, {self.plan.wanted:,} episodes,"
            f" {self.plan.wanted - left:,} finished, {left:,} pending"
            + (f", {len(backlog):,} answers to judge" if backlog else "")
        )
        unfinished = {self.plan.cells[index].key: None for index in self.plan.left(self.pending)}
        for line in (*self.standing.sentences(unfinished), *told(self.plan.precision, planned_cells(self.plan))):
            self.say(line)

    @contextmanager
    def _pictures_recorded(self) -> Iterator[None]:
        """Meanwhile write down what the pictures are, where they lie in a folder and models are to see them."""
        known = not self.pending and (self.output / PICTURES).exists()
        if known or address(self.sweep.data) is not None or not any(map(ShownPictures.sees, self.plan.cells)):
            yield
            return
        recorder, whole = Recorder(self.plan, Path(self.sweep.data), self.output), False
        recorder.start()
        try:
            yield
            whole = not self.interrupted
        finally:
            recorder.finish(hurry=not whole)

    def _start_tracker(self) -> Tracker:
        tracker = tracker_of(self.sweep, self.output)
        if not tracker.off:
            tracker.dataset(described(self.sweep.name, self.sweep.data, self.plan.played))
        tracker.start()
        return tracker

    # -- while it plays -----------------------------------------------------------------------------------------------
    def _play(self, tracker: Tracker, metrics: CellMetricsPublisher | None = None) -> None:
        """Run the driver until nothing is pending, or somebody stops it, and make durable what came back."""
        from orchestrator.execution import ray_cluster  # Ray takes a second to import: not for `plan` or `status`
        from orchestrator.execution.result_sink import ResultSink

        progress = self._progress(tracker, metrics)
        started = time.perf_counter()
        ray_cluster.connect(lambda line: print(line, file=sys.stderr, flush=True))
        breaker, began = CircuitBreaker(answering(self.plan, self.output)), time.perf_counter()
        sink = ResultSink(self.store, self.plan, breaker, self.stops.stored)
        asyncio.run(self._drive(sink, progress))
        if not self.interrupted:
            sink.release()
        self.store.flush()
        queue = self.judge_queue
        if queue:
            queue.flush(always=True)
            print(f"{queue.key} read {queue.written:,} answers", file=sys.stderr, flush=True)
        progress.played(sink.done, time.perf_counter() - began)
        if self.next:
            log.info("%d new episodes are kept; the sweep goes on as it was applied", sink.done)
        elif self.interrupted:
            why = "Ray's raylet on this machine has ended" if self.cluster_lost else "stopped"
            sentence = f"{why}: {sink.done:,} new episodes are kept; the same command goes on from here"
            log.info(sentence)  # a closed terminal shows nothing
            print(sentence, file=sys.stderr)
        self.seconds = time.perf_counter() - started

    async def _drive(self, sink: ResultSink, progress: Progress) -> None:
        from orchestrator.execution import ray_cluster
        from orchestrator.execution.driver import Driver

        queue = self.judge_queue
        sweep = self.sweep.model_copy(update={"judge": queue.judge if queue else self.sweep.turn_judge})
        startable = {name: ordinals for name, ordinals in self.pending.items() if name not in self.reasons}
        driver = Driver(sweep, self.plan, startable, sink, self.log, queue, self.stops.cancelled)
        control = LiveControl(driver, Playable(self.sweep, self.plan), self.output, self.standing, self.changeable)
        self.signals.stop_with(driver.stop)
        hosts = SystemMetrics(ray_cluster.hosts, ray_cluster.busy_on)
        tracker = progress.tracker
        watching = None if tracker.off else asyncio.create_task(hosts.run(tracker.system_metrics))
        with progress, ray_cluster.watching_raylet(driver.lose_cluster):
            await driver.run(lambda: self._tick(driver, progress, control))
        if watching:
            watching.cancel()
        write_observed(self.output, driver.schedule, driver.kind, sweep.protocols)
        self.reasons, self.interrupted = {**self.reasons, **driver.reasons}, driver.stopping.is_set()
        self.cluster_lost = driver.cluster_lost
        self.next = None if self.signals.count or self.cluster_lost else control.next

    def _tick(self, driver: Driver, progress: Progress, control: LiveControl) -> None:
        """What happens about twice a second while the driver runs."""
        control.poll()
        progress.show(driver.sink.per_cell, driver.sink.errors, driver.schedule, driver.reasons)
        self.store.flush_old()
        if self.stops.changed:
            progress.replanned(self._replan())
        if self.judge_queue:
            self.judge_queue.flush()

    def _progress(self, tracker: Tracker, metrics: CellMetricsPublisher | None) -> Progress:
        cells = planned_rows(self.plan)
        wrong = episodes(self.output).filter(pl.col("ending").is_in(ERRORS)).group_by("cell").len().collect()
        known = set(cells["cell"])
        errors = {cell: count for cell, count in wrong.iter_rows() if cell in known}
        groups = {model.name: group(model) for model in self.sweep.models}
        return Progress(self.output, cells, stored_by_cell(self.plan, self.pending), errors, groups, tracker, metrics)

    # -- after --------------------------------------------------------------------------------------------------------
    def _compact(self) -> None:
        self.store.compact()
        if self.judge_queue:
            self.judge_queue.verdicts.compact()

    def _write_results(self) -> Outcome:
        """Score what the folder holds and write results and status."""
        if self.plan.precision:
            self._find_stops()
            self._replan()
        outcome = self._outcome(self._with_own(self._scored()))
        write_results(self.output, outcome.rows)
        states = cell_states(outcome.rows, self.reasons, self.standing)
        run_folder.write_status(self.output, states, finished=not self.interrupted)
        return outcome

    def _scored(self) -> pl.DataFrame:
        """One row a planned cell, open-ended ones by the sweep's own judge."""
        return scored(self.plan, self.output, own(self.sweep))

    def _with_own(self, rows: pl.DataFrame) -> pl.DataFrame:
        stored, said = belonging(self.plan, self.output), turns(self.output)
        conditions = {condition.name: condition for condition in self.sweep.conditions}
        rows = with_decisions(rows, Stored(stored, said, conditions, self.plan.played))
        return with_resources(with_own(rows, self.sweep.measures, stored, said, self.say), self.output, self.sweep)

    def _outcome(self, rows: pl.DataFrame) -> Outcome:
        played = int(rows["finished"].sum()) == self.plan.wanted and not int(rows["failed"].sum())
        complete = played and (not self.sweep.judged or all_read(rows))
        return Outcome(rows, complete, self.interrupted, self.reasons, self.seconds, self.cluster_lost)

    def _close_tracker(self, tracker: Tracker, outcome: Outcome) -> None:
        for row in outcome.rows.iter_rows(named=True):
            tracker.cell(row)
        tracker.artifacts([self.output / "sweep.resolved.toml", self.output / "results.json"])
        status = "FINISHED" if outcome.complete else "KILLED" if outcome.interrupted else "FAILED"
        tracker.close(status, CLOSE_TIMEOUT_INTERRUPTED_S if outcome.interrupted else CLOSE_TIMEOUT_S)


def tracker_of(sweep: Sweep, output: Path) -> Tracker:
    """The tracker that sends an attempt at the sweep to MLflow; not started."""
    content = sweep.model_dump(mode="json", exclude_none=True)
    experiment = sweep.tracking.experiment or sweep.name
    return Tracker(sweep.tracking.uri, experiment, output, parameters(content), sweep.name, Roster.of(content))
