"""Play an attempt on a Ray cluster: connect, drive workers until nothing is pending, and make the results durable."""

import asyncio
import logging
import time

from actors.text.printable import say
from orchestrator.execution import ray_cluster
from orchestrator.execution.driver import Driver
from orchestrator.execution.live_control import LiveControl
from orchestrator.execution.prepare import AttemptState
from orchestrator.execution.result_sink import ResultSink
from orchestrator.monitoring.progress import Progress
from orchestrator.scheduling.forecast.throughput import write_observed

log = logging.getLogger(__name__)


def play_on_ray(state: AttemptState) -> None:
    """Play until nothing is pending or the user stops the run, and store the results."""
    sink = ResultSink(state.store, state.plan, state.rule.add_batch)
    planned, started = state.planned_per_group(), time.perf_counter()
    before = {name: count - len(state.pending.get(name, ())) for name, count in planned.items()}
    progress = Progress(state.output, planned, before, sink.errors_before)
    ray_cluster.connect(say)
    connected = time.perf_counter()
    asyncio.run(_drive(state, sink, progress))
    _store_rest(state, sink)
    refused = {str(group): reason for group, reason in sink.stop_reasons.items()}
    state.reasons = {**state.reasons, **refused}
    stored = sink.stored_per_group.total()
    progress.report_total(stored, time.perf_counter() - connected)
    if state.interrupted:
        message = f"stopped: {stored:,} new episodes are stored; run the same command to continue"
        log.info(message)  # in case the terminal is closed
        say(message)
    state.seconds = time.perf_counter() - started


async def _drive(state: AttemptState, sink: ResultSink, progress: Progress) -> None:
    queue = state.judge_queue
    sweep = state.sweep.model_copy(update={"judge": queue.judge if queue else state.sweep.turn_judge})
    startable = {name: ordinals for name, ordinals in state.pending.items() if name not in state.reasons}
    driver = Driver(sweep, state.plan, startable, sink, queue)
    control = LiveControl(driver, state.plan, state.output, state.standing)
    state.signals.stop_with(driver.stop)
    with progress:
        await driver.run(lambda: _on_tick(state, driver, progress, control))
    write_observed(state.output, driver.schedule, driver.accelerator, state.plan, startable)
    lost = {name: group.reason for name, group in driver.schedule.groups.items() if group.reason}
    state.reasons = {**state.reasons, **lost}
    state.interrupted = driver.stopping


def _on_tick(state: AttemptState, driver: Driver, progress: Progress, control: LiveControl) -> None:
    """Carry out commands, cancel what has stopped, show progress and flush the stores, about twice a second."""
    control.poll()
    for name, unneeded in (*state.take_new_stops(), *driver.sink.take_new_stops()):
        driver.act(driver.schedule.cancel(name, unneeded, driver.now()))
    troubles = {worker.group: worker.trouble for worker in driver.pool.handles.values()}
    progress.show(driver.sink.stored_per_group, driver.sink.errors, driver.schedule, troubles)
    state.store.flush_old()
    if state.stops != state.plan.stops:
        state.replan()
        progress.rate_meter.planned = state.planned_per_group()
    if state.judge_queue:
        state.judge_queue.flush()


def _store_rest(state: AttemptState, sink: ResultSink) -> None:
    if not state.interrupted:
        sink.store_held_back()
    state.store.flush()
    if queue := state.judge_queue:
        queue.flush(always=True)
        say(f"{queue.key} gave {queue.read_count:,} verdicts on {queue.judged_count:,} answers")
