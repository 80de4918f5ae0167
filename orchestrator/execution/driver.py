"""The driver acts and decides nothing: commands of the schedule become Ray calls, what comes back becomes events.

Every block passes one gate (``ResultSink``) that lets each planned episode through once. A worker that dies, hangs past its
deadline or fails to load is an event like any other; only a bug in the driver itself travels up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.process_output import WorkerAddress
from actors.rate_limit import ModelStopped
from actors.worker import Worker
from orchestrator.datasets.node_staging import NodeStaging
from orchestrator.execution.failed_episodes import failed_block
from orchestrator.execution.ray_cluster import capacity, gpu_nodes, here, printed_on
from orchestrator.execution.result_sink import ResultSink
from orchestrator.execution.worker_logs import AttemptLog, WorkerLogCollector, changed, ready, tell
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning.plan import Plan, group
from orchestrator.scheduling.forecast.workload import estimated
from orchestrator.scheduling.resources import demands, shares
from orchestrator.scheduling.scheduler import Abandon, Command, Drop, GiveUp, Lease, Scheduler, Start, Stop
from sweeps.spec import Sweep

BACKPRESSURE = 16
"""Blocks a worker may have ready before the driver takes them: it bounds memory when the disk is slow."""
START_TIMEOUT_S = 1800.0
"""Seconds a worker may take to load; a 78B model from a cold disk needs many minutes."""
STOP_TIMEOUT_S = 5.0
"""Seconds an engine gets to close before its actor is killed."""

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
    place: WorkerAddress | None = None
    """Where it lives, once it lives."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


class Driver:
    """Plays a plan to its end on a connected Ray cluster."""

    def __init__(
        self,
        sweep: Sweep,
        plan: Plan,
        pending: Mapping[str, Sequence[int]],
        sink: ResultSink,
        kept: AttemptLog,
        desk: JudgeQueue | None = None,
    ) -> None:
        """``pending``: group -> ordinals to play. With a ``desk`` its judge reads open-ended answers as they come."""
        self.sweep, self.plan, self.sink, self.desk = sweep, plan, sink, desk
        cpus, gpus = capacity()
        self.nodes = gpu_nodes()
        self.kind = self.nodes[0].accelerator if self.nodes else ""
        self.demands = estimated(demands(sweep, cpus, gpus), sweep, self.kind)
        queues = dict(pending) if desk is None else {**pending, desk.group: desk.backlog}
        self.schedule = Scheduler(
            queues, self.demands, cpus, gpus, self.nodes, shares(sweep, gpus), plan.together, sweep.cluster.silence
        )
        self._began = time.monotonic()
        self.workers: dict[int, WorkerHandle] = {}
        self.events: asyncio.Queue[Callable[[], list[Command]]] = asyncio.Queue()
        self.stopping = asyncio.Event()
        self.reasons: dict[str, str] = {}
        """Group -> the last reason for which a worker of it was lost."""
        self.kept, self.voices = kept, WorkerLogCollector(kept, here(), printed_on)
        self._book, self.stages = ray.put(plan), NodeStaging(sweep)
        self._farewells: set[asyncio.Task[None]] = set()

    async def run(self, tick: Callable[[], None] = lambda: None) -> bool:
        """Play until nothing is pending, or ``stop`` is called; True if all is done. ``tick`` runs about twice a second."""
        self._act(self.schedule.begin(self.now()))
        ticking = asyncio.create_task(self._tick(tick))
        stopped = asyncio.create_task(self.stopping.wait())
        try:
            while not self.schedule.done and not self.stopping.is_set():
                event = asyncio.create_task(self.events.get())
                await asyncio.wait({event, stopped, ticking}, return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    event.cancel()
                    break
                self._act(event.result()())
            if ticking.done():
                ticking.result()  # it ends only by an error, a full disk for example, which travels up
            return self.schedule.done
        finally:
            ticking.cancel()
            stopped.cancel()
            self._dismiss_all()
            self.stages.close()
            await self.voices.settle(LOG_TIMEOUT_INTERRUPTED_S if self.stopping.is_set() else LOG_TIMEOUT_S)

    def now(self) -> float:
        """Seconds since the driver was made: the time that events carry."""
        return time.monotonic() - self._began

    def stop(self) -> None:
        """Leave as soon as possible; what is unfinished stays pending."""
        self.stopping.set()

    # -- commands -----------------------------------------------------------------------------------------------------
    def _act(self, commands: Sequence[Command]) -> None:
        """Act; a worker that was lost while its event waited is passed over, for the schedule hears of it next."""
        for command in commands:
            tell(command, {slot: worker.group for slot, worker in self.workers.items()})
            match command:
                case Start(slot, name, node):
                    self._start(slot, name, node)
                case Lease(slot, lease, ordinals) if slot in self.workers:
                    self._spawn(slot, self._stream(slot, lease, ordinals))
                case Stop(slot) if slot in self.workers:
                    self._stop(slot)
                case Drop(slot, reason) if slot in self.workers:
                    self.reasons[self.workers[slot].group] = reason
                    self._kill(slot, lost=True)
                case GiveUp(numbers, reason) if self.desk is not None and numbers[0] >= self.plan.total:
                    self.desk.give_up(numbers, reason)
                case GiveUp(ordinals, reason):
                    self.sink.add(failed_block(self.plan, ordinals, reason))
                case Abandon(name, reason):
                    self.reasons[name] = reason

    def _start(self, slot: int, name: str, node: str) -> None:
        judge = self.desk.judge if self.desk is not None and self.desk.group == name else None
        models = [judge.model] if judge else [model for model in self.sweep.models if group(model) == name]
        demand = self.demands[name]
        place = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)} if node else {}
        kind = {"accelerator_type": demand.accelerator} if demand.accelerator else {}
        actor = Worker.options(  # type: ignore[attr-defined]
            num_gpus=demand.gpus, num_cpus=demand.cpus, **place, **kind
        ).remote(self._book, models, str(Path(self.sweep.data).resolve()), judge)
        self.workers[slot] = WorkerHandle(name, actor)
        self._spawn(slot, self._await_ready(slot))

    def _stop(self, slot: int) -> None:
        worker = self.workers.pop(slot)
        self.voices.gather(worker.group, slot, worker.place, lost=False)

        async def farewell() -> None:
            with contextlib.suppress(TimeoutError, RayActorError, RayTaskError):  # it is killed either way
                await asyncio.wait_for(_result(worker.actor.close.remote()), STOP_TIMEOUT_S)
            ray.kill(worker.actor)

        task = asyncio.create_task(farewell())
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    def _kill(self, slot: int, lost: bool = False) -> WorkerHandle:
        worker = self.workers.pop(slot)
        self.voices.gather(worker.group, slot, worker.place, lost)
        for task in worker.tasks:
            task.cancel()
        ray.kill(worker.actor)
        return worker

    def _dismiss_all(self) -> None:
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
        judge = self.desk is not None and self.desk.group == worker.group
        async with asyncio.timeout(START_TIMEOUT_S):
            worker.place = await _result(worker.actor.place.remote())
        staged = "" if judge else await self.stages.folder(worker.place.node, worker.place.host)
        async with asyncio.timeout(START_TIMEOUT_S):
            said = await _result(worker.actor.ready.remote(staged))
        ready(worker.group, slot, worker.place, said)
        self.events.put_nowait(lambda: self.schedule.ready(slot, self.now()))

    async def _stream(self, slot: int, lease: int, ordinals: Sequence[int]) -> None:
        """Take a lease's blocks until its stream ends."""
        worker = self.workers[slot]
        leased = self.desk.lease(ordinals) if self.desk and worker.group == self.desk.group else list(ordinals)
        stream = worker.actor.play.options(
            num_returns="streaming", _generator_backpressure_num_objects=BACKPRESSURE
        ).remote(leased)
        while True:
            try:
                content = await asyncio.wait_for(_next(stream), self.sweep.cluster.silence)
            except StopAsyncIteration:
                break
            self._act(self.schedule.delivered(slot, lease, self._stored(content), self.now()))
        self.events.put_nowait(lambda: self.schedule.drained(slot, lease, self.now()))

    def _stored(self, content: dict[str, Any]) -> Sequence[int]:
        """The numbers of what a block holds, now in the store's or the desk's hands; new answers wait for their judge."""
        if "verdicts" in content:
            assert self.desk is not None, "verdicts come from a judge"
            return self.desk.add(content)
        fresh, desk = self.sink.add(content), self.desk
        if desk is not None and (answers := desk.take(fresh)):
            self.events.put_nowait(lambda: self.schedule.arrived(desk.group, answers, self.now()))
        ordinals: Sequence[int] = content["ordinals"]
        return ordinals

    def _lost(self, slot: int, problem: BaseException | None) -> None:
        """A worker is gone: the schedule hears of it once, and after a pause so that nothing spins."""
        if slot not in self.workers:
            return
        if not isinstance(problem, RayActorError | RayTaskError | TimeoutError | GetTimeoutError):
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
        """Why a worker is lost, and where its last words are if it could not say it itself."""
        worker = self.workers[slot]
        if isinstance(problem, RayTaskError) or worker.place is None:
            return plain(problem)
        return f"{plain(problem)} (its output: {self.kept.worker(worker.group, slot)})"

    def _look(self) -> list[Command]:
        """What follows from time passed, and from nodes that came or went."""
        nodes, commands = gpu_nodes(), self.schedule.tick(self.now())
        if nodes != self.nodes:
            changed(self.nodes, nodes)
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
                self.events.put_nowait(self._look)


def plain(problem: BaseException | None) -> str:
    """The last line of an error: what a table can show."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines[-1] if lines else type(problem).__name__)[:500]


async def _result(ref: Any) -> Any:
    return await ref


async def _next(stream: Any) -> dict[str, Any]:
    """The next block of a stream; raises StopAsyncIteration at its end."""
    content: dict[str, Any] = await (await anext(stream))
    return content


def _raiser(problem: BaseException | None) -> Callable[[], list[Command]]:
    def travel_up() -> list[Command]:
        raise problem or RuntimeError("a worker's task ended without a reason")

    return travel_up
