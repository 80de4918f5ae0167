"""The driver turns the scheduler's commands into Ray calls, and Ray's results into events; it decides nothing itself.

Every batch of episodes goes through ``ResultSink``, which stores each planned episode once. A worker that dies, hangs or fails
to load is an event for the scheduler; the driver raises only its own bugs and errors of storage, such as a full disk.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ray.autoscaler.sdk import request_resources
from ray.exceptions import ActorUnavailableError, ObjectLostError, RayError, RayTaskError

from actors.engine.backend import ModelStopped
from actors.playing.records import EpisodeBatch, VerdictBatch
from orchestrator.datasets.node_staging import stage_on_node
from orchestrator.execution.attempt_log import log_nodes, log_ready
from orchestrator.execution.cluster_view import ClusterView, node_hosts
from orchestrator.execution.ray_cluster import cluster_address
from orchestrator.execution.result_sink import ResultSink
from orchestrator.execution.stop_signals import AttemptClock
from orchestrator.execution.worker_pool import FATAL_START_ERRORS, WorkerPool, last_line, loss_reason, resolve
from orchestrator.judging.judge_queue import JudgeQueue
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.commands import JUDGES, Command, Drop, GiveUp, Lease, Recall, Start, Stop
from orchestrator.scheduling.forecast.forecast import estimate_demands
from orchestrator.scheduling.resources import Bundle, demands, shares, wanted_bundles
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.spec import Sweep

START_TIMEOUT_S = 1800.0
"""Seconds a worker may take to load; a 78B model from a cold disk needs many minutes."""
CHECK_INTERVAL_S = 5.0
"""Seconds between two checks for silent workers and changed nodes."""
RESTART_DELAY_S = 0.5
"""Seconds before a lost worker is replaced, so that workers that die at once are not restarted without pause."""
NODE_NOTICE_S = 15.0
"""The same for a worker that cannot be reached: Ray declares a node dead only some seconds after calls to its workers fail."""
DRAIN_S = 5.0
"""Seconds in which a worker whose model has stopped may still deliver the finished episodes of its other leases."""

log = logging.getLogger(__name__)


class Driver:
    """Plays a plan to its end on a connected Ray cluster."""

    def __init__(
        self,
        sweep: Sweep,
        plan: Plan,
        pending: Mapping[str, Sequence[int]],
        sink: ResultSink,
        judge_queue: JudgeQueue | None = None,
    ) -> None:
        """Build the scheduler and an empty pool of workers; ``pending``: group -> ordinals to play."""
        self.sink, self.judge_queue = sink, judge_queue
        self.view = ClusterView()
        self.view.read(())
        cpus, gpus = self.view.cpus, self.view.usable_gpus
        self.accelerator = self.view.nodes[0].accelerator if self.view.nodes else ""
        wanted = estimate_demands(demands(sweep, cpus, gpus, self.view.nodes), sweep, self.accelerator)
        self.drained: frozenset[str] = frozenset()
        """Nodes that a person has drained (``ctl drain``)."""
        self.pool = WorkerPool(sweep, plan, wanted, sink.store.folder, judge_queue)
        self.requested: Sequence[Bundle] = ()
        """The GPUs that the cluster's autoscaler was asked for last."""
        queues = dict(pending)
        if self.pool.turn_group:
            queues[self.pool.turn_group] = ()
        if judge_queue is not None:
            queues[judge_queue.group] = judge_queue.first_answers
        self.schedule = Scheduler(
            queues, wanted, cpus, gpus, self.view.nodes, shares(sweep, gpus), sweep.cluster.silence,
            sweep.cluster.wait_hours * 3600 if cluster_address() else 0.0,
        )  # fmt: skip
        self.now, self.hosts = AttemptClock().now, node_hosts
        self.events: asyncio.Queue[Callable[[], list[Command]]] = asyncio.Queue()
        self.stopping = False
        self.failure: BaseException | None = None

    async def run(self, on_tick: Callable[[], None] = lambda: None) -> None:
        """Play until nothing is pending or ``stop`` is called; ``on_tick`` runs about twice a second."""
        self.act([*self._close_nodes(), *self.schedule.on_begin(self.now())])
        tasks = [asyncio.create_task(work) for work in (self._tick(on_tick), self.pool.spending.watch())]
        try:
            while not self.schedule.done and not self.stopping:
                self.act((await self.events.get())())
            if self.failure:
                raise self.failure
        finally:
            for task in tasks:
                task.cancel()
            self._request_nodes(())
            await self.pool.close()

    def stop(self) -> None:
        """Stop as soon as possible; unfinished episodes stay pending."""
        self.stopping = True
        self.events.put_nowait(list)

    def _fail(self, problem: BaseException) -> None:
        """End with an error that is not the loss of a worker: a bug, or an error of storage such as a full disk."""
        self.failure = problem
        self.stop()

    # -- commands -----------------------------------------------------------------------------------------------------
    def act(self, commands: Sequence[Command]) -> None:
        """Carry out commands; skip those for workers that have been lost meanwhile, because an event reports the loss."""
        workers = self.pool.handles
        for command in commands:
            if not isinstance(command, Lease | Recall):  # there are too many
                log.info("%s", command)
            match command:
                case Start(slot) as start:
                    self.pool.start(start)
                    self._spawn(slot, self._await_ready(slot))
                case Lease(slot, lease, ordinals) if slot in workers:
                    self._spawn(slot, self._play_lease(slot, lease, ordinals))
                case Stop(slot) if slot in workers:
                    self.pool.stop(slot)
                case Recall(slot, ordinals) if slot in workers:
                    workers[slot].actor.recall.remote(ordinals)
                case Drop(slot) if slot in workers:
                    self.pool.kill(slot)
                case GiveUp(ordinals, reason, name):
                    (self.pool.queue_of(name) or self.sink).give_up(ordinals, reason)
                    self._release_answers()

    def _spawn(self, slot: int, work: Any) -> None:
        task = asyncio.create_task(work)
        self.pool.handles[slot].tasks.add(task)
        task.add_done_callback(lambda done: self._on_task_end(slot, done))

    def _on_task_end(self, slot: int, task: asyncio.Task[None]) -> None:
        tasks = self.pool.handles[slot].tasks if slot in self.pool.handles else set()
        tasks.discard(task)
        if task.cancelled() or (problem := task.exception()) is None:
            return
        if isinstance(problem, ModelStopped) and tasks:  # its other leases may still hold results
            asyncio.get_running_loop().call_later(DRAIN_S, self._on_loss, slot, problem)
        else:
            self._on_loss(slot, problem)

    # -- events -------------------------------------------------------------------------------------------------------
    async def _await_ready(self, slot: int) -> None:
        worker = self.pool.handles[slot]
        address = await worker.find_address(START_TIMEOUT_S)
        self.schedule.on_placed(slot, self.now())
        is_judge = worker.demand.pool == JUDGES
        staged = "" if is_judge else await stage_on_node(self.pool.sweep, address.node, address.host)
        async with asyncio.timeout(START_TIMEOUT_S):
            report = await resolve(worker.actor.start.remote(staged))
        self.pool.record_start(slot, report)
        if not is_judge:
            await self.pool.certify(worker)
        log_ready(worker.group, slot, address, report.lines)
        self.events.put_nowait(lambda: self.schedule.on_ready(slot, self.now(), report.in_flight))
        if worker.group == self.pool.turn_group:
            beats = self.pool.serve_turns(slot, lambda n: self.schedule.on_heartbeat(slot, n, self.now()))
            self._spawn(slot, beats)

    async def _play_lease(self, slot: int, lease: int, ordinals: Sequence[int]) -> None:
        """Store a lease's batches until its stream ends; the scheduler decides how long a worker may be silent."""
        stream, missing = self.pool.stream(slot, ordinals)
        if missing:
            log.error("%d answers are missing from the store, so no judge reads them", len(missing))
            self.act(self.schedule.on_delivery(slot, lease, missing, self.now()))
        async for reference in stream:
            batch: EpisodeBatch | VerdictBatch = await reference
            self._store(batch)
            self.act(self.schedule.on_delivery(slot, lease, batch.ordinals, self.now()))
        self.events.put_nowait(lambda: self.schedule.on_lease_end(slot, lease, self.now()))

    def _store(self, batch: EpisodeBatch | VerdictBatch) -> None:
        """Store a batch, and queue its open-ended answers for the judge."""
        queue = self.judge_queue
        if isinstance(batch, VerdictBatch):
            assert queue is not None, "a VerdictBatch came without a judge"
            queue.store_verdicts(batch)
            self._release_answers()
            if queue.stop_reason:
                raise ModelStopped(queue.stop_reason)
            return
        new = self.sink.add(batch)
        if queue is not None and (answers := queue.add_answers(new)):
            self.act(self.schedule.on_answers(queue.group, answers, self.now()))

    def _release_answers(self) -> None:
        """If the gold check has just ended, give the judge the answers that waited for its end."""
        queue = self.judge_queue
        if queue is not None and (answers := queue.take_released()):
            self.act(self.schedule.on_answers(queue.group, answers, self.now()))

    def _on_loss(self, slot: int, problem: BaseException) -> None:
        """Report a lost worker to the scheduler once; wait before it is replaced (``RESTART_DELAY_S``)."""
        if slot not in self.pool.handles:
            return
        if not isinstance(problem, RayError | TimeoutError | ModelStopped):
            self._fail(problem)
            return
        worker, is_starting = self.pool.handles[slot], not self.schedule.slots[slot].ready
        log.warning("worker %d of %s is lost: %s", slot, worker.group, last_line(problem))
        reason = loss_reason(problem, worker.address)
        self.pool.kill(slot)
        is_fatal_start = is_starting and isinstance(problem, RayTaskError) and isinstance(problem, FATAL_START_ERRORS)
        if isinstance(problem, ModelStopped) or is_fatal_start:
            self.events.put_nowait(lambda: self.schedule.on_fatal_error(slot, reason, self.now()))
            return
        delay = NODE_NOTICE_S if isinstance(problem, ActorUnavailableError) else RESTART_DELAY_S
        report = partial(self._on_death, slot, reason, worker.node, problem)
        asyncio.get_running_loop().call_later(delay, self.events.put_nowait, report)

    def _on_death(self, slot: int, reason: str, node: str, problem: BaseException) -> list[Command]:
        """Report a death; a lost node, or a result that Ray has lost, makes no episode suspected of killing the worker."""
        is_innocent = isinstance(problem, ObjectLostError) or (node != "" and node not in node_hosts())
        return self.schedule.on_death(slot, reason, self.now(), is_innocent)

    async def _tick(self, on_tick: Callable[[], None]) -> None:
        checked_at = 0.0
        while True:
            await asyncio.sleep(0.5)
            try:
                on_tick()
            except Exception as problem:
                self._fail(problem)
                return
            if self.now() - checked_at >= CHECK_INTERVAL_S:
                checked_at = self.now()
                self.events.put_nowait(self._check)

    def _check(self) -> list[Command]:
        for slot in self.pool.find_placed():
            self.schedule.on_placed(slot, self.now())
        for slot, worker in self.pool.handles.items():
            is_service = any(model.backend == "openai" for model in worker.models)
            if is_service and slot in self.schedule.slots and self.schedule.slots[slot].ready:
                self._spawn(slot, worker.ask_trouble())
        nodes, commands = self.view.nodes, self.schedule.on_tick(self.now())
        if self.view.read(self.pool.holdings()):
            log_nodes(nodes, self.view.nodes, self.view.draining)
            commands += [*self._resize(), *self._close_nodes()]
        if cluster_address():
            self._request_nodes(wanted_bundles(self.schedule, self.pool.sweep.cluster.shares))
        return commands

    def _request_nodes(self, bundles: Sequence[Bundle]) -> None:
        """Ask a joined cluster's autoscaler for all these GPUs at once; without any, let it end the nodes when they are idle.

        Ray keeps one request per cluster, and each replaces the last, so ours is repeated in case another job sent one.
        """
        if bundles or self.requested:
            request_resources(bundles=list(bundles))
            self.requested = bundles

    def drain(self, nodes: Iterable[str]) -> None:
        """Start no worker on these nodes, nor on those that Ray drains; reopen nodes of an earlier call that are not named."""
        self.drained = frozenset(nodes)
        self.act(self._close_nodes())

    def _close_nodes(self) -> list[Command]:
        return self.schedule.drain(self.drained | self.view.draining, self.now())

    def _resize(self) -> list[Command]:
        """Give the scheduler the demands and shares for the cluster's new size."""
        sweep, cpus, gpus = self.pool.sweep, self.view.cpus, self.view.usable_gpus
        self.accelerator = self.view.nodes[0].accelerator if self.view.nodes else self.accelerator
        self.pool.demands = estimate_demands(demands(sweep, cpus, gpus, self.view.nodes), sweep, self.accelerator)
        return self.schedule.on_nodes(self.view.nodes, cpus, self.now(), self.pool.demands, shares(sweep, gpus))
