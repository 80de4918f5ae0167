"""The scheduler: events come in, commands go out. It holds no device, and equal events give equal commands.

Every pending episode is in exactly one place: waiting in its group's queue, leased to one worker, delivered, given up, or
kept out of the queue because somebody paused or cancelled it.
Events carry the time, no clock is read here: execution/driver acts on commands with Ray, forecast/simulator virtually.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.scheduling.commands import Abandon, Command, Demand, Drop, GiveUp, Lease, Recall, Start, Stop
from orchestrator.scheduling.control import PAUSE_GRACE_S, Control
from orchestrator.scheduling.nodes import Node, Nodes
from orchestrator.scheduling.state import LATE_FACTOR, WorkerGroup, WorkerSlot

__all__ = ["Abandon", "Command", "Demand", "Drop", "GiveUp", "Lease", "Recall", "Scheduler", "Start", "Stop"]

MAX_LONE_DEATHS = 2
"""Workers that die while playing one episode alone before it is set aside as failed; workers also die for other reasons."""
MAX_SUSPECTS = 128
"""Of a lease that died: so many of its first undelivered episodes may have been in play; the others only waited there."""
SUSPECT_LEASE = 16
"""Suspects are played again so many at a time, and one by one if that kills another worker."""
MAX_FAILED_STARTS = 3
"""Failed starts in a row after which a group is abandoned."""
MAX_JUDGE_LOSSES = 10
"""Ready workers of a judge lost in a row, without an episode of those that wait for it, after which all are abandoned."""
MAX_UNREAD = 4096
"""Answers that may wait for a judge at work before those who write them get no new lease."""


class Scheduler(Control):
    """Each event method takes the time in seconds and returns the commands that follow."""

    @property
    def done(self) -> bool:
        """Whether nothing is waiting, paused or leased."""
        pending = any(group.left or group.parked for group in self.groups.values())
        return not pending and not any(slot.leases for slot in self.slots.values())

    # -- events -------------------------------------------------------------------------------------------------------
    def begin(self, now: float = 0.0) -> list[Command]:
        """The first event: the sweep starts."""
        self._advance(now)
        self.begun = True
        return self._abandon_too_wide() + self._place()

    def ready(self, slot: int, now: float = 0.0, at_once: int = 0) -> list[Command]:
        """A worker has loaded its engines, which play so many episodes ``at_once``; 0 keeps what was expected."""
        self._advance(now)
        if slot not in self.slots:
            return []
        worker = self.slots[slot]
        worker.ready, worker.last_heard, worker.group.failed_starts = True, self.now, 0
        worker.group.starts.append(self.now - worker.began)
        worker.group.demand = replace(worker.group.demand, at_once=at_once or worker.group.demand.at_once)
        return self._assign(slot)

    def delivered(self, slot: int, lease: int, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """The driver has received a block of episodes."""
        self._advance(now)
        if slot in self.slots and lease in self.slots[slot].leases:
            self._observe(self.slots[slot], len(ordinals))
            self._forget_losses(self.slots[slot].group)
            for ordinal in ordinals:
                self.slots[slot].leases[lease].pop(ordinal, None)
        return self._assign_idle()

    def arrived(self, name: str, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """Answers are there for a judge to read."""
        self._advance(now)
        group = self.groups[name]
        if group.abandoned:
            return []
        group.waiting.extend(group.wanted(ordinals))
        return self._abandon_too_wide() + self._assign_idle() + self._place()

    def heard(self, slot: int, answered: int, now: float = 0.0) -> list[Command]:
        """A judge's worker that others ask has answered so many requests, or had none to answer."""
        self._advance(now)
        if slot in self.slots:
            self.slots[slot].last_heard = self.now
            self.slots[slot].group.answered += answered
        return []

    def drained(self, slot: int, lease: int, now: float = 0.0) -> list[Command]:
        """A lease's stream has ended in good order; what it did not deliver waits again."""
        self._advance(now)
        if slot not in self.slots:
            return []
        worker = self.slots[slot]
        self._observe(worker, 0)
        worker.due.pop(lease, None)
        worker.group.waiting.extendleft(reversed(worker.group.wanted(worker.leases.pop(lease, {}))))
        worker.suspected = False
        return self._assign(slot)

    def died(self, slot: int, reason: str, now: float = 0.0) -> list[Command]:
        """A worker is lost; what it had not delivered is requeued."""
        self._advance(now)
        return self._requeue_lost(slot, reason) + self._assign_idle() + self._place() if slot in self.slots else []

    def hopeless(self, slot: int, reason: str, now: float = 0.0) -> list[Command]:
        """A worker says that no worker can play its group: a missing package, a refused key, a spent budget."""
        self._advance(now)
        if slot not in self.slots:
            return []
        return [*self._abandon(self._release(slot).group, reason), *self._assign_idle(), *self._place()]

    def tick(self, now: float) -> list[Command]:
        """Time has passed: what silent and far too slow workers hold is pending again, and free GPUs find work."""
        self._advance(now)
        commands: list[Command] = []
        for slot, worker in list(self.slots.items()):
            if slot not in self.slots:
                continue
            late = [lease for lease, due in worker.due.items() if self.now > due]
            silent = self.now - worker.last_heard > worker.group.silence_timeout(self.silence)
            asked = worker.ready and self._to_stand(worker.group)
            if self._awaits_judge(worker.group):
                worker.wait(self.now, self.silence)
            elif (worker.leases or asked) and (silent or late):
                reason = (
                    f"silent for {self.now - worker.last_heard:.0f} s" if silent else f"{LATE_FACTOR:g} times too slow"
                )
                commands += [Drop(slot, reason), *self._requeue_lost(slot, reason)]
        if not self.slots and self.now - self.changed > self.silence:
            commands += self._abandon_too_wide()
        return commands + self._assign_idle() + self._place()

    def resized(self, nodes: Sequence[Node], cpus: float, now: float) -> list[Command]:
        """The cluster's nodes have changed; ``died`` follows for each worker of a lost node."""
        self._advance(now)
        self.nodes, self.cpus, self.changed = Nodes(nodes), cpus, self.now
        for worker in self.slots.values():
            self.nodes.take(worker.node, worker.group.demand.gpus, worker.shared)
        return self._place()

    # -- what follows -----------------------------------------------------------------------------------------------
    def _observe(self, worker: WorkerSlot, played: int) -> None:
        """A worker with leases was busy since it was last heard of; a suspect plays alone and tells nothing of a rate."""
        if not worker.suspected:
            worker.group.played += played
            worker.group.busy += self.now - worker.last_heard
        worker.last_heard = self.now

    # -- decisions ----------------------------------------------------------------------------------------------------
    def _requeue_lost(self, slot: int, reason: str) -> list[Command]:
        """Requeue what a lost worker held; count the failed start, or the episode that it died with alone."""
        worker = self._release(slot)
        commands: list[Command] = []
        if not worker.ready:
            worker.group.failed_starts += 1
            loaded = any(other.ready for other in self.slots.values() if other.group is worker.group)
            if worker.group.failed_starts >= MAX_FAILED_STARTS and not loaded:
                commands += self._abandon(worker.group, reason)
        if worker.group.demand.unhurried:
            return commands + self._requeue_whole(worker, reason)
        if worker.ready and worker.group.demand.serves:
            worker.group.losses += 1
            if worker.group.losses >= MAX_JUDGE_LOSSES:
                return commands + self._abandon(worker.group, reason)
        held = [tuple(lease) for lease in worker.leases.values() if lease]
        for ordinals in held:
            if len(held) == len(ordinals) == 1 and self._isolated_twice(worker.group, ordinals[0]):
                commands.append(GiveUp(ordinals, reason, worker.group.name))
            else:
                self._suspect(worker.group, ordinals)
        return commands

    def _requeue_whole(self, worker: WorkerSlot, reason: str) -> list[Command]:
        """Requeue what took days as it was, for the next worker finds its batches; suspects would be days in small leases."""
        group = worker.group
        group.waiting.extendleft(reversed(group.wanted(worker.leased)))
        group.losses += bool(worker.leases)
        return self._abandon(group, reason) if group.losses >= MAX_FAILED_STARTS else []

    def _isolated_twice(self, group: WorkerGroup, ordinal: int) -> bool:
        """Count one more worker that died with this episode alone; true at ``MAX_LONE_DEATHS``."""
        self.lone_deaths[group.name, ordinal] += 1
        return self.lone_deaths[group.name, ordinal] >= MAX_LONE_DEATHS

    def _suspect(self, group: WorkerGroup, ordinals: tuple[int, ...]) -> None:
        """Put back what a dead worker held: episodes that only waited into the queue, those in play into smaller leases."""
        in_play = group.wanted(ordinals[:MAX_SUSPECTS])
        group.waiting.extendleft(reversed(group.wanted(ordinals[MAX_SUSPECTS:])))
        size = SUSPECT_LEASE if len(in_play) > SUSPECT_LEASE else 1
        group.suspects.extend(in_play[first : first + size] for first in range(0, len(in_play), size))

    def _abandon_too_wide(self) -> list[Command]:
        commands: list[Command] = []
        for group in self.groups.values():
            demand = group.demand
            most = min(self.nodes.widest(demand.accelerator), self.shares.get(demand.pool, demand.gpus))
            if (group.left or self._to_stand(group)) and demand.gpus > most:
                where = "a node of the cluster" if len(self.nodes.nodes) > 1 else "the cluster"
                needs = f"{group.name} needs {demand.told}, {where} has {most:g}"
                commands += self._abandon(group, needs + self._beside(group))
        return commands

    def _beside(self, group: WorkerGroup) -> str:
        """The judge whose GPUs are not to be had for the group, as words."""
        judge = self.groups.get(group.demand.judge)
        return f" beside {judge.demand.told} for {judge.name}" if judge and judge.demand.serves else ""

    def _abandon(self, group: WorkerGroup, reason: str) -> list[Command]:
        """Nobody plays the group in this attempt, nor those whose episodes wait for its replies."""
        for queue in (group.suspects, group.waiting, group.parked, group.dropped):
            queue.clear()
        group.abandoned = True
        commands: list[Command] = [Abandon(group.name, reason)]
        for writer in self.groups.values():
            if group.demand.serves and writer.demand.judge == group.name and self.remaining(writer):
                commands += self._stop_all(writer)
                commands += self._abandon(writer, f"{group.name} cannot read its answers: {reason}")
        return commands

    def _stop_all(self, group: WorkerGroup) -> list[Command]:
        stopped = [slot for slot, worker in self.slots.items() if worker.group is group]
        for slot in stopped:
            self._release(slot)
        return [Stop(slot) for slot in stopped]

    def _forget_losses(self, group: WorkerGroup) -> None:
        """An episode has come: workers of its group live, and the judge's that it waited for."""
        group.losses = 0
        if group.demand.judge in self.groups:
            self.groups[group.demand.judge].losses = 0

    def _place(self) -> list[Command]:
        """Start workers while one fits that ends its group's work sooner."""
        commands: list[Command] = []
        while (group := self._next_to_start()) is not None:
            place = self._room(group.demand)
            assert place is not None, "only a group that fits is chosen"
            self._slots += 1
            node, shared = self.nodes.take_at(place, group.demand.gpus, self._slots)
            self.slots[self._slots] = WorkerSlot(group, node, self.now, self.now, shared=shared)
            commands.append(Start(self._slots, group.name, node, shared))
        self._make_room()
        return commands

    def _judge_is_behind(self, group: WorkerGroup) -> bool:
        """Whether the group's judge is at work and has ``MAX_UNREAD`` answers to read."""
        judge = self.groups.get(group.demand.judge)
        return judge is not None and judge.left >= MAX_UNREAD and any(s.group is judge for s in self.slots.values())

    def _keeps_idle(self, worker: WorkerSlot) -> bool:
        """Whether a worker without a lease stays: a judge until answers arrive, a writer until its judge has caught up.

        One whose work was paused stays a moment, in case that is taken back.
        """
        group = worker.group
        if worker.leaving:
            return False
        if group.parked and self.now - group.parked_since < PAUSE_GRACE_S and not self._some_wait_for_room():
            return True
        if self._to_stand(group):
            return True
        return (self._awaits_answers(group) and not self._some_wait_for_room()) or (
            group.left > 0 and self._judge_is_behind(group)
        )

    def _some_wait_for_room(self) -> bool:
        """Whether a group has work, no worker and no free GPU, though its pool may take one: idle workers then stop."""
        replicas = {slot.group.name for slot in self.slots.values()}
        return any(
            group.left and group.name not in replicas and not self._fits(group)
            for group in self.groups.values()
            if group.demand.gpus <= self._free_in_pool(group.demand.pool) and not group.demand.after
        )

    def _assign_idle(self) -> list[Command]:
        """Leases for workers that waited, or can take more."""
        commands: list[Command] = []
        for slot, worker in list(self.slots.items()):
            if (
                worker.ready
                and slot in self.slots
                and (not worker.leases or (worker.group.waiting and worker.wants_work))
            ):
                commands += self._assign(slot)
        return commands

    def _assign(self, slot: int) -> list[Command]:
        """Leases for a ready worker; one without work stops, and its GPUs go to another group."""
        worker = self.slots[slot]
        commands: list[Command] = []
        while worker.wants_work and (ordinals := self._next_lease(worker)):
            self._leases += 1
            worker.leases[self._leases] = dict.fromkeys(ordinals)
            worker.due[self._leases] = worker.deadline(self.now, self.silence)
            commands.append(Lease(slot, self._leases, ordinals))
        if not worker.leases and not self._keeps_idle(worker):
            self._release(slot)
            commands.append(Stop(slot))
        commands += self._stop_unneeded(worker.group)
        return commands + self._place()

    def _stop_unneeded(self, group: WorkerGroup) -> list[Command]:
        """Stop workers that are still starting when nothing is left for them."""
        if group.left or self._awaits_answers(group):
            return []
        starting = [slot for slot, worker in self.slots.items() if worker.group is group and not worker.ready]
        for slot in starting:
            self._release(slot)
        return [Stop(slot) for slot in starting]

    def _follow(self, group: WorkerGroup) -> list[Command]:
        if not self.begun:
            return []
        stopped = self._stop_unneeded(group)
        return [*stopped, *self._assign_idle(), *self._place()]

    def _next_lease(self, worker: WorkerSlot) -> tuple[int, ...]:
        group = worker.group
        if worker.suspected or worker.leaving or self._judge_is_behind(group):
            return ()
        if group.suspects and not worker.leases:
            worker.suspected = True
            return group.suspects.popleft()
        if group.suspects and not group.waiting:
            return ()
        leased = [
            group.waiting.popleft()
            for _ in range(group.lease_size(sum(slot.group is group for slot in self.slots.values())))
        ]
        while leased and group.waiting and self.together(leased[-1], group.waiting[0]):
            leased.append(group.waiting.popleft())
        return tuple(leased)
