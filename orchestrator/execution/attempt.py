"""One attempt at a sweep: load, claim the folder, subtract what is finished, play the rest, score, tell the user.

Everything that must outlive the attempt is in the run folder; a later attempt needs nothing else.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from envs.types import ERRORS
from orchestrator.datasets.staging import fixed
from orchestrator.execution import worker_logs
from orchestrator.execution.retry_failed import take_back
from orchestrator.judging.judge_queue import JudgeQueue, unread, worded
from orchestrator.monitoring.progress import Progress
from orchestrator.planning.build_plan import belonging, build_plan, planned_rows
from orchestrator.planning.plan import Plan, group
from orchestrator.report.judge_agreement import own
from orchestrator.report.metrics import score, write_results
from orchestrator.scheduling.forecast.throughput import write_observed
from orchestrator.storage import run_folder
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.verdict_store import verdicts
from orchestrator.tracking.cell_metrics import CellMetricsPublisher
from orchestrator.tracking.dataset import described
from orchestrator.tracking.system_metrics import SystemMetrics
from orchestrator.tracking.tracker import Tracker, parameters
from sweeps.load import skipped
from sweeps.spec import Judge, Sweep

if TYPE_CHECKING:
    from orchestrator.execution.driver import Driver

INTERRUPTED = 130
INCOMPLETE = 1


@dataclass(frozen=True)
class Outcome:
    """What an attempt came to."""

    rows: pl.DataFrame
    """One row a cell (``score``)."""
    complete: bool
    interrupted: bool
    reasons: Mapping[str, str]
    """Group of models -> why it could not go on."""
    seconds: float = 0.0
    """From the first start of a worker to the last durable episode."""

    @property
    def code(self) -> int:
        """The process's exit code: 0 only when every cell is complete."""
        if self.interrupted:
            return INTERRUPTED
        return 0 if self.complete else INCOMPLETE


def run(
    sweep: Sweep, output: Path, update: bool = False, say: Callable[[str], None] = print, retry_failed: bool = False
) -> Outcome:
    """Play what is pending of the sweep, with ``retry_failed`` also what an earlier attempt gave up.

    Raises RunFolderError when the folder is held or holds another configuration.
    """
    sweep = fixed(sweep)
    if sweep.judged and sweep.judge is not None:
        worded(sweep.judge)
    plan = build_plan(sweep)
    for reason in skipped(sweep):
        say(f"left out: {reason}")
    with run_folder.disk(output), run_folder.claim(output, sweep, update=update), worker_logs.attempt(output) as kept:
        store = EpisodeStore(output)
        try:
            if retry_failed:
                say(f"{take_back(store, plan, kept.folder):,} failed episodes are pending again")
            return _attempt(sweep, plan, output, store, kept, say)
        finally:
            store.close()


def judge(
    sweep: Sweep, output: Path, reader: Judge, again: bool = False, say: Callable[[str], None] = print
) -> tuple[pl.DataFrame, bool]:
    """Have the stored answers of a run folder read by a judge, ``again`` those too that it could give no verdict on.

    Answers the scored rows by this judge, and whether it has read everything that is stored. ``sweep`` is the folder's
    own; its results.json is written anew where the reader is its own judge, or it had none. Raises RunFolderError.
    """
    worded(reader)
    sweep = sweep if sweep.judge else sweep.model_copy(update={"judge": reader})
    plan = build_plan(sweep)
    with run_folder.disk(output), run_folder.claim(output, sweep), worker_logs.attempt(output) as kept:
        store = EpisodeStore(output)
        try:
            rows, left = _judged(sweep, plan, output, store, kept, reader, again, say)
        finally:
            store.close()
    return rows, not left


def _judged(
    sweep: Sweep,
    plan: Plan,
    output: Path,
    store: EpisodeStore,
    kept: worker_logs.AttemptLog,
    reader: Judge,
    again: bool,
    say: Callable[[str], None],
) -> tuple[pl.DataFrame, int]:
    backlog = unread(plan, belonging(plan, output), output, reader, again)
    desk = JudgeQueue(reader, plan, store, backlog)
    say(f"{sweep.name}: {len(backlog):,} answers to read by {desk.key}")
    cells = planned_rows(plan)
    if backlog:
        progress = _progress(sweep, output, cells, _finished(plan, {}), Tracker("none", "", output, {}, ""))
        reasons, _ = _play(sweep.model_copy(update={"judge": reader}), plan, {}, store, progress, kept, desk)
        for reason in reasons.values():
            say(f"{desk.key}: {reason}")
        desk.kept.compact()
    rows = scored(plan, output, desk.key)
    if own(sweep) == desk.key:
        write_results(output, rows)
    return rows, len(unread(plan, belonging(plan, output), output, reader))


def scored(plan: Plan, output: Path, judge: str, strict: bool = False) -> pl.DataFrame:
    """One row a planned cell (``score``), open-ended ones by this judge."""
    read = verdicts(output).filter(pl.col("judge") == judge)
    return score(belonging(plan, output), planned_rows(plan), read, strict)


def _desk(
    sweep: Sweep, plan: Plan, output: Path, store: EpisodeStore, pending: Mapping[str, Sequence[int]]
) -> JudgeQueue | None:
    """The desk of the sweep's judge, where there is or will be something to read."""
    if not sweep.judged or sweep.judge is None:
        return None
    backlog = unread(plan, belonging(plan, output), output, sweep.judge)
    return JudgeQueue(sweep.judge, plan, store, backlog) if backlog or pending else None


def _attempt(
    sweep: Sweep,
    plan: Plan,
    output: Path,
    store: EpisodeStore,
    kept: worker_logs.AttemptLog,
    say: Callable[[str], None],
) -> Outcome:
    finished = set(store.finished()["key"])
    pending = plan.pending(finished)
    left, desk = sum(map(len, pending.values())), _desk(sweep, plan, output, store, pending)
    waiting = f", {len(desk.backlog):,} answers to judge" if desk and desk.backlog else ""
    say(
        f"{sweep.name}: {len(plan.cells)} cells, {plan.total:,} episodes,"
        f" {plan.total - left:,} finished, {left:,} pending{waiting}"
    )
    cells = planned_rows(plan)
    run_folder.write_plan(output, cells, plan.all_keys())
    tracker = _tracker(sweep, output)
    if not tracker.off:
        tracker.dataset(described(sweep.name, sweep.data, plan.played))
    tracker.start()
    standing = None if tracker.off else CellMetricsPublisher(lambda: scored(plan, output, own(sweep)), tracker.cell)
    progress = _progress(sweep, output, cells, _finished(plan, pending), tracker, standing)
    began = time.perf_counter()
    reasons, interrupted = _play(sweep, plan, pending, store, progress, kept, desk) if left or desk else ({}, False)
    store.flush()
    seconds = time.perf_counter() - began
    if not interrupted:
        store.compact()
        if desk:
            desk.kept.compact()
    rows = scored(plan, output, own(sweep))
    write_results(output, rows)
    complete = int(rows["finished"].sum()) == plan.total and not int(rows["failed"].sum()) and _all_read(sweep, rows)
    run_folder.write_status(output, _states(rows, reasons), finished=not interrupted)
    for row in rows.iter_rows(named=True):
        tracker.cell(row)
    tracker.artifacts([output / "sweep.resolved.toml", output / "results.json"])
    tracker.close(
        "FINISHED" if complete else "KILLED" if interrupted else "FAILED", timeout=2.0 if interrupted else 60.0
    )
    return Outcome(rows, complete, interrupted, reasons, seconds)


def _all_read(sweep: Sweep, rows: pl.DataFrame) -> bool:
    """Whether the sweep's judge has read every answer, those included that it could give no verdict on."""
    if not sweep.judged:
        return True
    return bool((rows["answered"] == rows["judged"] + rows["unjudged"]).all())


def _progress(
    sweep: Sweep,
    output: Path,
    cells: pl.DataFrame,
    before: Mapping[str, int],
    tracker: Tracker,
    standing: CellMetricsPublisher | None = None,
) -> Progress:
    groups = {model.name: group(model) for model in sweep.models}
    wrong = episodes(output).filter(pl.col("ending").is_in(ERRORS)).group_by("cell").len().collect()
    known = set(cells["cell"])
    errors = {cell: count for cell, count in wrong.iter_rows() if cell in known}
    return Progress(output, cells, before, errors, groups, tracker, standing)


def _finished(plan: Plan, pending: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Cell -> planned episodes that are stored already."""
    missing = Counter(plan.task(ordinal)[0] for queue in pending.values() for ordinal in queue)
    return {cell.key: len(plan.drawn(cell)) - missing[n] for n, cell in enumerate(plan.cells)}


def _play(
    sweep: Sweep,
    plan: Plan,
    pending: Mapping[str, Sequence[int]],
    store: EpisodeStore,
    progress: Progress,
    kept: worker_logs.AttemptLog,
    desk: JudgeQueue | None = None,
) -> tuple[dict[str, str], bool]:
    """Run the driver; returns reasons of lost groups, and whether somebody stopped it."""
    from orchestrator.execution import ray_cluster  # Ray takes a second to import: not for `plan` or `status`
    from orchestrator.execution.driver import Driver
    from orchestrator.execution.result_sink import ResultSink

    ray_cluster.connect()
    sink = ResultSink(store, plan)

    async def drive() -> tuple[dict[str, str], bool]:
        driver = Driver(sweep if desk else sweep.model_copy(update={"judge": None}), plan, pending, sink, kept, desk)
        for number in (signal.SIGINT, signal.SIGTERM):  # after ray.init, which installs its own
            asyncio.get_running_loop().add_signal_handler(number, driver.stop)
        machines = SystemMetrics(ray_cluster.hosts, ray_cluster.busy_on)
        watching = [] if progress.tracker.off else [asyncio.create_task(machines.watch(progress.tracker.machines))]
        with progress:
            await driver.run(lambda: _tick(progress, driver, store, desk))
        for task in watching:
            task.cancel()
        write_observed(store.folder, driver.schedule, driver.kind, sweep.protocols)
        return dict(driver.reasons), driver.stopping.is_set()

    began = time.perf_counter()
    reasons, interrupted = asyncio.run(drive())
    store.flush()
    if desk:
        desk.flush(always=True)
        print(f"{desk.key} read {desk.written:,} answers", file=sys.stderr, flush=True)
    progress.played(sink.done, time.perf_counter() - began)
    if interrupted:
        print(f"stopped: {sink.done:,} new episodes are kept; the same command goes on from here", file=sys.stderr)
    return reasons, interrupted


def _tick(progress: Progress, driver: Driver, store: EpisodeStore, desk: JudgeQueue | None) -> None:
    """What happens about twice a second while the driver runs."""
    progress.tracker.scored(driver.sink.scored)
    progress.show(driver.sink.per_cell, driver.sink.errors, driver.schedule, driver.reasons)
    store.flush_old()
    if desk:
        desk.flush()


def _tracker(sweep: Sweep, output: Path) -> Tracker:
    told = parameters(sweep.model_dump(mode="json", exclude_none=True))
    return Tracker(sweep.tracking.uri, sweep.tracking.experiment or sweep.name, output, told, sweep.name)


def _states(rows: pl.DataFrame, reasons: Mapping[str, str]) -> list[dict[str, Any]]:
    """State of each cell for status.json: complete, partial, waiting or failed, with the reason where there is one."""
    return [
        {
            "cell": row["cell"],
            "planned": row["planned"],
            "finished": row["finished"],
            "errors": row["errors"],
            "state": _state(row, reasons),
            "reason": reasons.get(row["model"], "") if row["finished"] < row["planned"] else "",
        }
        for row in rows.iter_rows(named=True)
    ]


def _state(row: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    if row["finished"] == row["planned"]:
        return "failed" if row["failed"] else "complete"
    if row["model"] in reasons:
        return "failed"
    return "partial" if row["finished"] else "waiting"
