"""The scheduler turns events into commands. It uses no device, and equal events give equal commands.

Every planned episode is in exactly one state: waiting in its group's queue, leased to one worker, delivered, given up, or
held back because it is paused or cancelled. Events carry the time; no clock is read here. ``execution/driver`` carries
out the commands with Ray, ``tests/simulated_schedule`` on a virtual clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestrator.scheduling.commands import Abandon, Command, Demand, Drop, GiveUp
from orchestrator.scheduling.control import Control, recall_leases
from orchestrator.scheduling.nodes import Node, Nodes
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot

MAX_LONE_DEATHS = 2
"""An episode fails after so many workers died while they played only it; one death may have another reason."""
MAX_SUSPECTS = 128
"""So many of the first undelivered episodes of a lost lease may have been in play; the others only waited in it."""
SUSPECT_LEASE = 16
"""Suspects per lease when they are played again; if that kills another worker, each is played alone."""
MAX_FAILED_STARTS = 3
"""A group is abandoned after so many failed starts in a row."""
MAX_LOSSES = 10
"""A group is abandoned after so many ready workers were lost one after another, with no episode delivered in between."""


class Scheduler(Control):
    """One method per event; each takes the time in seconds and returns the commands that follow."""

    @property
    def done(self) -> bool:
        """True if nothing is waiting, paused or leased."""
        pending = any(group.queued_count or group.parked for group in self.groups.values())
        return not pending and not any(slot.leases for slot in self.slots.values())

    # -- events -------------------------------------------------------------------------------------------------------
    def on_begin(self, now: float = 0.0) -> list[Command]:
        """Handle the start of the attempt."""
        self._advance(now)
        self.begun = True
        return self._abandon_too_wide() + self._start_workers()

    def on_placed(self, slot: int, now: float = 0.0) -> list[Command]:
        """Handle a worker that Ray has given its GPUs and CPUs: its start begins now."""
        if (worker := self._advance_to(slot, now)) and not worker.placed:
            worker.placed, worker.started_at = True, self.now
        return []

    def on_ready(self, slot: int, now: float = 0.0, concurrency: int = 0) -> list[Command]:
        """Handle a worker that has loaded its engines; it plays ``concurrency`` episodes at once (0: as estimated)."""
        if not (worker := self._advance_to(slot, now)):
            return []
        worker.placed = worker.ready = True
        worker.last_heard = worker.ready_at = self.now
        worker.group.failed_starts = 0
        worker.group.start_times.append(self.now - worker.started_at)
        worker.group.demand = replace(worker.group.demand, concurrency=concurrency or worker.group.demand.concurrency)
        return self._assign(slot)

    def on_delivery(self, slot: int, lease: int, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """Handle a batch of a lease's episodes; it proves that the group and its judge work, so their losses are forgotten."""
        if (worker := self._advance_to(slot, now)) and lease in worker.leases:
            self._observe(worker, len(ordinals))
            for name in {worker.group.name, worker.group.demand.judge} & self.groups.keys():
                self.groups[name].losses = 0
            for ordinal in ordinals:
                worker.leases[lease].pop(ordinal, None)
        return self._assign_idle()

    def on_answers(self, name: str, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """Queue new answers for a judge."""
        self._advance(now)
        group = self.groups[name]
        if group.abandoned:
            return []
        group.waiting.extend(group.filter_playable(ordinals))
        return self._abandon_too_wide() + self._assign_idle() + self._start_workers()

    def on_heartbeat(self, slot: int, answered: int, now: float = 0.0) -> list[Command]:
        """Handle a heartbeat of a judge's worker; ``answered`` counts its replies since the last heartbeat."""
        if worker := self._advance_to(slot, now):
            worker.last_heard = self.now
            worker.group.answered += answered
        return []

    def on_lease_end(self, slot: int, lease: int, now: float = 0.0) -> list[Command]:
        """Handle the end of a lease without an error; its undelivered episodes wait again."""
        if not (worker := self._advance_to(slot, now)):
            return []
        self._observe(worker, 0)
        worker.group.waiting.extendleft(reversed(worker.group.filter_playable(worker.leases.pop(lease, {}))))
        worker.suspected = False
        return self._assign(slot)

    def on_death(self, slot: int, reason: str, now: float = 0.0, with_node: bool = False) -> list[Command]:
        """Handle the loss of a worker, ``with_node`` if its node is lost too; its undelivered episodes wait again."""
        if not self._advance_to(slot, now):
            return []
        return self._requeue_lost(slot, reason, with_node) + self._assign_idle() + self._start_workers()

    def on_fatal_error(self, slot: int, reason: str, now: float = 0.0) -> list[Command]:
        """Abandon the worker's group, because no worker could play it: a missing package, a refused key, a spent budget.

        Its other workers finish and deliver the episodes that they have begun, and begin no others.
        """
        if not self._advance_to(slot, now):
            return []
        group = self._release(slot).group
        recalled = recall_leases(self._workers_of(group))
        return [*self._abandon(group, reason), *recalled, *self._assign_idle(), *self._start_workers()]

    def on_tick(self, now: float) -> list[Command]:
        """Drop workers that are silent, and give work to free GPUs."""
        self._advance(now)
        commands: list[Command] = []
        for slot, worker in list(self.slots.items()):
            if slot not in self.slots:  # stopped when an earlier slot's loss abandoned its group
                continue
            silent_for = self.now - worker.last_heard
            must_answer = worker.ready and self.required_replicas(worker.group)
            if self._awaits_judge(worker.group):
                worker.last_heard = self.now  # the wait for a judge is no silence
            elif (worker.leases or must_answer) and silent_for > worker.group.silence_timeout(self.silence):
                reason = f"silent for {silent_for:.0f} s"
                commands += [Drop(slot, reason), *self._requeue_lost(slot, reason)]
        self._hand_over()
        unchanged_for = self.now - self.changed
        if self.wait or (unchanged_for > self.silence and not self.slots):
            commands += self._abandon_too_wide(unchanged_for)
        return commands + self._assign_idle() + self._start_workers()

    def on_nodes(
        self,
        nodes: Sequence[Node],
        cpus: float,
        now: float,
        demands: Mapping[str, Demand] | None = None,
        shares: Mapping[str, float] | None = None,
    ) -> list[Command]:
        """Handle a change of the nodes, or of the GPUs that other jobs hold.

        The workers of a lost node are reported later, each by ``on_death``. ``demands`` and ``shares`` are those of the new size
        for workers that start from now on; without them, the old ones stay, as does each group's concurrency.
        """
        self._advance(now)
        before, self.nodes, self.cpus = self.nodes, Nodes(nodes), cpus
        if [(node.name, node.gpus) for node in before.nodes] != [(node.name, node.gpus) for node in nodes]:
            self.changed = self.now
        for worker in self.slots.values():
            self.nodes.take(worker.place, worker.group.demand.gpus)
        self.demands = demands or self.demands
        for name, group in self.groups.items():
            group.demand = replace(self.demands[name], concurrency=group.demand.concurrency)
        commands = list[Command]()
        for slot, worker in reversed(list(self.slots.items())):  # those that wait in Ray for GPUs that another job took
            if not worker.placed and self.nodes.held and self.nodes.free.get(worker.place.node, 0) < 0:
                commands += self._stop([slot])
        return commands + (self._start_workers() if shares is None else self.set_shares(shares, now))

    def _observe(self, worker: WorkerSlot, played: int) -> None:
        """Count delivered episodes, and the time since the last message as busy, except for a worker that plays suspects.

        Small leases of suspects leave the engine half empty, so they say nothing about the rate.
        """
        if not worker.suspected:
            worker.group.played += played
            worker.group.busy_s += self.now - worker.last_heard
        worker.last_heard = self.now

    def _advance_to(self, slot: int, now: float) -> WorkerSlot | None:
        """Advance the time to an event, and return its worker; None if that was stopped or lost before."""
        self.now = max(self.now, now)
        return self.slots.get(slot)

    # -- decisions ----------------------------------------------------------------------------------------------------
    def _requeue_lost(self, slot: int, reason: str, with_node: bool = False) -> list[Command]:
        """Requeue the leases of a lost worker; count a failed start, or a death with a single episode in play."""
        worker = self._release(slot)
        worker.group.reason = reason
        with_node = with_node or worker.place.node not in ("", *self.nodes.free)
        commands: list[Command] = []
        if not worker.ready:
            worker.group.failed_starts += 1
            loaded = any(other.ready for other in self._workers_of(worker.group).values())
            if worker.group.failed_starts >= MAX_FAILED_STARTS and not loaded:
                commands += self._abandon(worker.group, reason)
        if worker.ready and self._count_loss(worker, with_node) >= MAX_LOSSES:
            return commands + self._abandon(worker.group, reason)
        leases = [tuple(lease) for lease in worker.leases.values() if lease]
        suspected = self._requeue_innocent(worker.group, leases) if with_node else leases
        for ordinals in suspected:
            is_alone = len(leases) == len(ordinals) == 1
            episode = worker.group.name, ordinals[0]
            self.lone_deaths[episode] += is_alone
            if is_alone and self.lone_deaths[episode] >= MAX_LONE_DEATHS:
                commands.append(GiveUp(ordinals, reason, worker.group.name))
            else:
                self._suspect(worker.group, ordinals)
        return commands

    def _count_loss(self, worker: WorkerSlot, with_node: bool) -> int:
        """Count a loss, and return the group's losses in a row.

        Workers that ran at the same time count as one loss, and those of a lost node are not counted.
        """
        group = worker.group
        if worker.ready_at >= group.last_loss_at and not with_node:
            group.losses, group.last_loss_at = group.losses + 1, self.now
        return group.losses

    def _requeue_innocent(self, group: WorkerGroup, leases: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Requeue leases that were lost with their node, unless an episode in play was lost with a node before; return the rest.

        A single node is lost for other reasons than an episode; one that was in play on two lost nodes is suspected.
        """
        remaining = list[tuple[int, ...]]()
        for ordinals in leases:
            if group.lost_with_node.isdisjoint(ordinals[:MAX_SUSPECTS]):
                group.waiting.extendleft(reversed(group.filter_playable(ordinals)))
            else:
                remaining.append(ordinals)
            group.lost_with_node.update(ordinals[:MAX_SUSPECTS])
        return remaining

    def _suspect(self, group: WorkerGroup, ordinals: tuple[int, ...]) -> None:
        """Requeue a lost lease: episodes that only waited go to the queue, those in play to smaller leases of suspects."""
        in_play = group.filter_playable(ordinals[:MAX_SUSPECTS])
        group.waiting.extendleft(reversed(group.filter_playable(ordinals[MAX_SUSPECTS:])))
        size = SUSPECT_LEASE if len(in_play) > SUSPECT_LEASE else 1
        group.suspects.extend(in_play[first : first + size] for first in range(0, len(in_play), size))

    def _abandon_too_wide(self, unchanged_for: float = 0.0) -> list[Command]:
        """Abandon groups whose replica needs more GPUs than its pool or a node has, unless wider nodes may still join."""
        commands = list[Command]()
        if 0 < self.wait >= unchanged_for:
            return commands
        for group in self.groups.values():
            demand = group.demand
            share = demand.gpus if self.nodes.held else self.shares.get(demand.pool, demand.gpus)
            available = min(self.nodes.widest(demand.accelerator), share)
            if (group.queued_count or self.required_replicas(group)) and demand.gpus > available:
                reason = f"{group.name} needs {demand.gpu_text}; on one node it can have {available:g}"
                judge = self.groups.get(demand.judge)
                besides = f" besides {judge.name}" if judge and judge.demand.standing_replicas else ""
                commands += self._abandon(group, reason + besides)
        return commands

    def _abandon(self, group: WorkerGroup, reason: str) -> list[Command]:
        """Stop playing the group in this attempt, and the groups whose episodes wait for its replies."""
        for queue in (group.suspects, group.waiting, group.parked, group.dropped):
            queue.clear()
        group.abandoned, group.reason = True, reason
        commands: list[Command] = [Abandon(group.name, reason)]
        for writer in self.groups.values():
            if group.demand.standing_replicas and writer.demand.judge == group.name and self.remaining(writer):
                commands += self._stop(self._workers_of(writer))
                commands += self._abandon(writer, f"{group.name} cannot read its answers: {reason}")
        return commands
