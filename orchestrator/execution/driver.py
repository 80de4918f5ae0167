"""The driver turns the schedule's commands into Ray calls, and what comes back into events; it decides nothing itself.

Every batch passes one gate (``ResultSink``) that lets each planned episode through once. A worker that dies, hangs past its
deadline or fails to load is an event like any other; only a bug in the driver itself travels up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from actors.printable import one_line
from actors.process_output import WorkerAddress
from actors.rate_limit import ModelStopped
from actors.records import EpisodeBatch, VerdictBatch
from actors.worker import Worker
from orchestrator.datasets.node_staging import NodeStaging
from orchestrator.execution import batch_runs
from orchestrator.execution.failed_episodes import failed_batch
from orchestrator.execution.ray_cluster import SharedGpus, capacity, gpu_nodes, here, hosts, printed_on
from orchestrator.execution.result_sink import ResultSink
from orchestrator.execution.spending import Spending
from orchestrator.execution.turn_judges import TurnJudges
from orchestrator.execution.worker_logs import (
    AttemptLog,
    WorkerLogCollector,
    log_command,
    log_nodes,
    log_ready,
)
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning.plan import Plan, group
from orchestrator.scheduling.commands import JUDGES
from orchestrator.scheduling.forecast.workload import estimated
from orchestrator.scheduling.resources import demands, shares
from orchestrator.scheduling.scheduler import Abandon, Command, Drop, GiveUp, Lease, Recall, Scheduler, Start, Stop
from sweeps.spec import Sweep

BACKPRESSURE = 16
"""Batches a worker may have ready before the driver takes them: it bounds memory when the disk is slow."""
START_TIMEOUT_S = 1800.0
"""Seconds a worker may take to load; a 78B model from a cold disk needs many minutes."""
STOP_TIMEOUT_S = 5.0
"""Seconds an engine gets to close before its actor is killed."""

STANDSTILL_S = 5.0
"""Seconds between two looks at the clock, twice a second, where the driver itself was stopped (SIGSTOP, a paused machine)."""
CHECK_INTERVAL_S = 5.0
"""Seconds between two looks for silent workers and changed nodes."""
RESTART_DELAY_S = 0.5
"""Seconds before a group's worker is replaced, so that a worker that dies at once does not spin."""

HOPELESS_START = (ValueError, OSError, ImportError)
"""What loading raises when another worker would fare no better: no such model, a package missing, an option refused."""

LOG_TIMEOUT_S, LOG_TIMEOUT_INTERRUPTED_S = 10.0, 0.5
"""Seconds that other nodes have at the end to hand over what workers printed; and where somebody stopped the run."""

log = logging.getLogger(__name__)


@dataclass
class WorkerHandle:
    """A worker as the driver holds it."""

    group: str
    actor: Any
    judge_queue: JudgeQueue | None = None
    """Where its leases come from, if it is a judge's."""
    place: WorkerAddress | None = None
    """Where it runs, once it runs."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Driver:
    """Plays a plan to its end on a connected Ray cluster."""

    def __init__(
        self,
        sweep: Sweep,
        plan: Plan,
        pending: Mapping[str, Sequence[int]],
        sink: ResultSink,
        attempt_log: AttemptLog,
        judge_queue: JudgeQueue | None = None,
        cancelled: Callable[[], Mapping[str, Container[int]]] = dict,
    ) -> None:
        """``pending``: group -> ordinals to play. With a ``judge_queue`` its judge reads open-ended answers as they come.

        ``cancelled`` says after each batch what nobody needs to play any more: group -> ordinals.
        """
        self.sweep, self.plan, self.sink, self.judge_queue = sweep, plan, sink, judge_queue
        self.cancelled = cancelled
        cpus, gpus = capacity()
        self.nodes = gpu_nodes()
        self.kind = self.nodes[0].accelerator if self.nodes else ""
        self.demands = estimated(demands(sweep, cpus, gpus), sweep, self.kind)
        self.turn_judges, queues = TurnJudges(sweep.serving_judge), dict(pending)
        if self.turn_judges.group:
            queues[self.turn_judges.group] = ()
        if judge_queue is not None:
            queues[judge_queue.group] = judge_queue.backlog
        self.schedule = Scheduler(
            queues, self.demands, cpus, gpus, self.nodes, shares(sweep, gpus), plan.together, sweep.cluster.silence
        )
        self._began = self._looked = time.monotonic()
        self.workers: dict[int, WorkerHandle] = {}
        self.events: asyncio.Queue[Callable[[], list[Command]]] = asyncio.Queue()
        self.stopping = asyncio.Event()
        self.cluster_lost = False
        """Whether it stopped because Ray has ended on this machine."""
        self.reasons: dict[str, str] = {}
        """Group -> the last reason for which a worker of it was lost."""
        self.attempt_log, self.worker_logs = attempt_log, WorkerLogCollector(attempt_log, here(), printed_on)
        self._plan_ref, self.stages = ray.put(plan), NodeStaging(sweep)
        self.shared, self.spending = SharedGpus(), Spending(sweep, sink.store.folder)
        self.run_name = batch_runs.name(sweep, sink.store.folder)
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, tick: Callable[[], None] = lambda: None) -> bool:
        """Play until nothing is pending, or ``stop`` is called; True if all is done. ``tick`` runs about twice a second."""
        self.act(self.schedule.begin(self.now()))
        ticking, spending = asyncio.create_task(self._tick(tick)), asyncio.create_task(self.spending.watch())
        stopped = asyncio.create_task(self.stopping.wait())
        try:
            while not self.schedule.done and not self.stopping.is_set():
                event = asyncio.create_task(self.events.get())
                await asyncio.wait({event, stopped, ticking}, return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    event.cancel()
                    break
                self.act(event.result()())
            if ticking.done():
                ticking.result()  # it ends only by an error, a full disk for example, which travels up
            return self.schedule.done
        finally:
            for task in (ticking, stopped, spending):
                task.cancel()
            self._kill_all()
            self.shared.close()
            self.stages.close()
            with contextlib.suppress(RayActorError, TimeoutError):
                await asyncio.wait_for(self.spending.settle(), STOP_TIMEOUT_S)
            await self.worker_logs.settle(LOG_TIMEOUT_INTERRUPTED_S if self.stopping.is_set() else LOG_TIMEOUT_S)

    def now(self) -> float:
        """Seconds since the driver was made: the time that events carry.

        Those in which it stood still are left out: what workers said meanwhile is still to be read.
        """
        clock = time.monotonic()
        if (still := clock - self._looked) > STANDSTILL_S:
            log.warning("the driver stood still for %.0f s, which count for no worker's silence", still)
            self._began += still
        self._looked = clock
        return clock - self._began

    def stop(self) -> None:
        """Leave as soon as possible; what is unfinished stays pending."""
        self.stopping.set()

    def set_in_flight(self, name: str, episodes: int) -> None:
        """Have the workers of a model play so many episodes at once, those that start later too."""
        models = [m.model_copy(update={"in_flight": episodes}) if m.name == name else m for m in self.sweep.models]
        self.sweep = self.sweep.model_copy(update={"models": tuple(models)})
        for worker in self.workers.values():
            if worker.group == name:
                worker.actor.set_in_flight.remote(episodes)

    def hosts(self) -> dict[str, str]:
        """Living nodes -> their hosts."""
        return hosts()

    def lose_cluster(self) -> None:
        """Ray has ended on this machine and will end this process: leave before."""
        log.warning("Ray's raylet on this machine has ended")
        self.cluster_lost = True
        self.stop()

    # -- commands -----------------------------------------------------------------------------------------------------
    def act(self, commands: Sequence[Command]) -> None:
        """Act; a worker that was lost while its event waited is passed over, for the schedule hears of it next."""
        for command in commands:
            log_command(command, {slot: worker.group for slot, worker in self.workers.items()})
            match command:
                case Start() as start:
                    self._start(start)
                case Lease(slot, lease, ordinals) if slot in self.workers:
                    self._spawn(slot, self._stream(slot, lease, ordinals))
                case Stop(slot) if slot in self.workers:
                    self._stop(slot)
                case Recall(slot, ordinals) if slot in self.workers:
                    self.workers[slot].actor.recall.remote(ordinals)
                case Drop(slot, reason) if slot in self.workers:
                    self.reasons[self.workers[slot].group] = reason
                    self._kill(slot, lost=True)
                case GiveUp(ordinals, reason, name):
                    self._give_up(name, ordinals, reason)
                case Abandon(name, reason):
                    self.reasons[name] = reason

    def _start(self, start: Start) -> None:
        slot, name = start.slot, start.group
        queue = self._queue_of(name)
        judge = self.turn_judges.judge if name == self.turn_judges.group else queue and queue.judge
        models = [judge.model] if judge else [model for model in self.sweep.models if group(model) == name]
        options = {**self.shared.options(start, self.demands[name]), **self.turn_judges.options(name)}
        actor = Worker.options(**options).remote(  # type: ignore[attr-defined]
            self._plan_ref, models, str(Path(self.sweep.data).resolve()), judge, self.spending.ledger, self.run_name
        )
        self.workers[slot] = WorkerHandle(name, actor, queue)
        if judge is None:
            self.turn_judges.plays(slot, actor)
        self._spawn(slot, self._await_ready(slot))

    def _queue_of(self, name: str) -> JudgeQueue | None:
        """The judge's queue, if the group is the judge's."""
        queue = self.judge_queue
        return queue if queue is not None and queue.group == name else None

    def _give_up(self, name: str, ordinals: Sequence[int], reason: str) -> None:
        queue = self._queue_of(name)
        if queue is None:
            self.sink.add(failed_batch(self.plan, ordinals, reason))
        else:
            queue.give_up(ordinals, reason)

    def _stop(self, slot: int) -> None:
        worker = self.workers.pop(slot)
        self.turn_judges.left(slot)
        self.worker_logs.gather(worker.group, slot, worker.place, lost=False)

        async def close() -> None:
            with contextlib.suppress(TimeoutError, RayActorError, RayTaskError):  # it is killed either way
                await asyncio.wait_for(_result(worker.actor.close.remote()), STOP_TIMEOUT_S)
            ray.kill(worker.actor)
            self.shared.left(slot)

        task = asyncio.create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _kill(self, slot: int, lost: bool = False) -> WorkerHandle:
        worker = self.workers.pop(slot)
        self.turn_judges.left(slot)
        self.worker_logs.gather(worker.group, slot, worker.place, lost)
        for task in worker.tasks:
            task.cancel()
        ray.kill(worker.actor)
        self.spending.forget(worker.actor)
        self.shared.left(slot)
        return worker

    def _kill_all(self) -> None:
        for slot in list(self.workers):
            self._kill(slot)

    # -- what comes back ----------------------------------------------------------------------------------------------
    def _spawn(self, slot: int, work: Any) -> None:
        task = asyncio.create_task(work)
        self.workers[slot].tasks.add(task)
        task.add_done_callback(lambda done: self._ended(slot, done))

    def _ended(self, slot: int, task: asyncio.Task[None]) -> None:
        if slot in self.workers:
            self.workers[slot].tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._lost(slot, task.exception())

    async def _await_ready(self, slot: int) -> None:
        worker = self.workers[slot]
        async with asyncio.timeout(START_TIMEOUT_S):
            worker.place = await _result(worker.actor.place.remote())
        reads = self.demands[worker.group].pool == JUDGES
        staged = "" if reads else await self.stages.folder(worker.place.node, worker.place.host)
        async with asyncio.timeout(START_TIMEOUT_S):
            reported = await _result(worker.actor.ready.remote(staged))
        log_ready(worker.group, slot, worker.place, reported.lines)
        self.events.put_nowait(lambda: self.schedule.ready(slot, self.now(), reported.in_flight))
        if worker.group == self.turn_judges.group:
            serve = self.turn_judges.serve(slot, worker.actor, lambda n: self.schedule.heard(slot, n, self.now()))
            self._spawn(slot, serve)

    async def _stream(self, slot: int, lease: int, ordinals: Sequence[int]) -> None:
        """Take a lease's batches until its stream ends; how long a worker may be silent is the schedule's to say."""
        stream, absent = self._leased(self.workers[slot], ordinals)
        if absent:
            log.error("%d answers are not in the store any more, and nobody judges them", len(absent))
            self.act(self.schedule.delivered(slot, lease, absent, self.now()))
        while True:
            try:
                batch = await _next(stream)
            except StopAsyncIteration:
                break
            self._store(batch)
            if (reason := self.sink.breaker.stopped.get(self.workers[slot].group)) is not None:
                raise ModelStopped(reason)
            self.act(self.schedule.delivered(slot, lease, batch.ordinals, self.now()))
            for name, unneeded in self.cancelled().items():
                self.act(self.schedule.cancel(name, unneeded, self.now()))
        self.events.put_nowait(lambda: self.schedule.drained(slot, lease, self.now()))

    def _leased(self, worker: WorkerHandle, ordinals: Sequence[int]) -> tuple[Any, list[int]]:
        """A lease's stream, of ``EpisodeBatch`` or from a judge's worker ``VerdictBatch``, and the ordinals that it lacks."""
        queue = worker.judge_queue
        options = {"num_returns": "streaming", "_generator_backpressure_num_objects": BACKPRESSURE}
        if queue is None:
            return worker.actor.play.options(**options).remote(list(ordinals)), []
        answers = queue.lease(ordinals)
        absent = set(ordinals) - {answer.ordinal for answer in answers}
        return worker.actor.judge_answers.options(**options).remote(answers), sorted(absent)

    def _store(self, batch: EpisodeBatch | VerdictBatch) -> None:
        """Hand a batch to the store; open-ended answers that are new wait for the judge from now on."""
        queue = self.judge_queue
        if isinstance(batch, VerdictBatch):
            assert queue is not None, "a VerdictBatch came without a judge"
            queue.add(batch)
            return
        new = self.sink.add(batch)
        if queue is not None and (answers := queue.take(new)):
            self.events.put_nowait(lambda: self.schedule.arrived(queue.group, answers, self.now()))

    def _lost(self, slot: int, problem: BaseException | None) -> None:
        """A worker is gone: the schedule hears of it once, and after a pause so that nothing spins."""
        if slot not in self.workers:
            return
        if not isinstance(problem, RayActorError | RayTaskError | TimeoutError | GetTimeoutError | ModelStopped):
            self.events.put_nowait(_raiser(problem))
            return
        starting, name = not self.schedule.slots[slot].ready, self.workers[slot].group
        log.warning("worker %d of %s is lost: %s", slot, name, plain(problem))
        reason = self.reasons[name] = self._reason(slot, problem)
        self._kill(slot, lost=True)
        refused = isinstance(problem, RayTaskError) and isinstance(problem, HOPELESS_START)
        if isinstance(problem, ModelStopped) or (starting and refused):
            self.events.put_nowait(lambda: self.schedule.hopeless(slot, reason, self.now()))
            return
        asyncio.get_running_loop().call_later(
            RESTART_DELAY_S, lambda: self.events.put_nowait(lambda: self.schedule.died(slot, reason, self.now()))
        )

    def _reason(self, slot: int, problem: BaseException | None) -> str:
        """Why a worker is lost, and where the end of its output is if it raised nothing itself."""
        worker = self.workers[slot]
        if isinstance(problem, RayTaskError | ModelStopped) or worker.place is None:
            return plain(problem)
        return f"{plain(problem)} (its output: {self.attempt_log.worker(worker.group, slot)})"

    def _check(self) -> list[Command]:
        """Commands that follow from the time that has passed, and from nodes that came or went."""
        nodes, commands = gpu_nodes(), self.schedule.tick(self.now())
        if nodes != self.nodes:
            log_nodes(self.nodes, nodes)
            self.nodes = nodes
            commands += self.schedule.resized(nodes, capacity()[0], self.now())
        return commands

    async def _tick(self, tick: Callable[[], None]) -> None:
        looked = 0.0
        while True:
            await asyncio.sleep(0.5)
            tick()
            if self.now() - looked >= CHECK_INTERVAL_S:
                looked = self.now()
                self.events.put_nowait(self._check)


def plain(problem: BaseException | None) -> str:
    """The last line of an error: what a table can show."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(problem).__name__)[:500]


async def _result(ref: Any) -> Any:
    return await ref


async def _next(stream: Any) -> EpisodeBatch | VerdictBatch:
    """The next batch of a stream; raises StopAsyncIteration at its end."""
    batch: EpisodeBatch | VerdictBatch = await (await anext(stream))
    return batch


def _raiser(problem: BaseException | None) -> Callable[[], list[Command]]:
    def travel_up() -> list[Command]:
        raise problem or RuntimeError("a worker's task ended without a reason")

    return travel_up
