"""The scheduler: events come in, commands go out. It holds no device, and equal events give equal commands.

Every pending episode is in exactly one place: waiting in its group's queue, leased to one worker, delivered, or given up.
Events carry the time, no clock is read here: execution/driver acts on commands with Ray, forecast/simulator virtually.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from orchestrator.scheduling.commands import Abandon, Command, Demand, Drop, GiveUp, Lease, Start, Stop
from orchestrator.scheduling.nodes import Node, Nodes, Place, nodes_of
from orchestrator.scheduling.state import (
    LATE_FACTOR,
    LEASES_PER_WORKER,
    SILENCE_TIMEOUT_S,
    WorkerGroup,
    WorkerSlot,
    cpus_taken,
    fewest_leaving,
    finish_time,
)

__all__ = ["Abandon", "Command", "Demand", "Drop", "GiveUp", "Lease", "Scheduler", "Start", "Stop"]

MAX_LONE_DEATHS = 2
"""Workers that die while playing one episode alone before it is set aside as failed; workers also die for other reasons."""
MAX_SUSPECTS = 128
"""Of a lease that died: so many of its first undelivered episodes may have been in play; the others only waited there."""
SUSPECT_LEASE = 16
"""Suspects are played again so many at a time, and one by one if that kills another worker."""
MAX_FAILED_STARTS = 3
"""Failed starts in a row after which a group is abandoned."""
MIN_GAIN = 0.01
"""One more replica is worth its start if it ends its group's work earlier by at least this fraction of that start."""
MAX_UNREAD = 4096
"""Answers that may wait for a judge at work before those who write them get no new lease."""


class Scheduler:
    """The state; each event method takes the time in seconds and returns the commands that follow."""

    def __init__(
        self,
        pending: Mapping[str, Sequence[int]],
        demands: Mapping[str, Demand],
        cpus: float,
        gpus: int,
        nodes: Sequence[Node] = (),
        shares: Mapping[str, float] | None = None,
        together: Callable[[int, int], bool] = lambda one, other: False,
        silence: float = SILENCE_TIMEOUT_S,
    ) -> None:
        """``together`` tells whether two neighbours in a queue are one sample's, which no lease takes apart.

        ``silence``: seconds a worker with a lease may say nothing before its work is taken back.
        """
        self.groups = {name: WorkerGroup(name, demands[name], deque(queue)) for name, queue in pending.items()}
        self.cpus = cpus
        self.nodes = Nodes(nodes or nodes_of(gpus))
        self.shares = dict(shares or {})
        """Pool -> GPUs it may take at once; a pool that is not named may take all."""
        self.together, self.silence = together, silence
        self.slots: dict[int, WorkerSlot] = {}
        self.lone_deaths: Counter[tuple[str, int]] = Counter()
        """Group, episode -> workers that died while playing nothing else."""
        self.now = self.changed = 0.0
        self._slots = 0
        self._leases = 0

    @property
    def done(self) -> bool:
        """Whether nothing is waiting and nothing is leased."""
        return not any(group.left for group in self.groups.values()) and not any(s.leases for s in self.slots.values())

    # -- events -------------------------------------------------------------------------------------------------------
    def begin(self, now: float = 0.0) -> list[Command]:
        """The first event: the sweep starts."""
        self._advance(now)
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
            for ordinal in ordinals:
                self.slots[slot].leases[lease].pop(ordinal, None)
        return self._assign_idle()

    def arrived(self, name: str, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """Answers are there for a judge to read."""
        self._advance(now)
        group = self.groups[name]
        if group.abandoned:
            return []
        group.waiting.extend(ordinals)
        return self._abandon_too_wide() + self._assign_idle() + self._place()

    def drained(self, slot: int, lease: int, now: float = 0.0) -> list[Command]:
        """A lease's stream has ended in good order; what it did not deliver waits again."""
        self._advance(now)
        if slot not in self.slots:
            return []
        worker = self.slots[slot]
        self._observe(worker, 0)
        worker.due.pop(lease, None)
        worker.group.waiting.extendleft(reversed(worker.leases.pop(lease, {})))
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
            late = [lease for lease, due in worker.due.items() if self.now > due]
            silent = self.now - worker.last_heard > worker.group.silence_timeout(self.silence)
            if worker.leases and (silent or late):
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

    # -- what is known --------------------------------------------------------------------------------------------------
    def remaining(self, group: WorkerGroup) -> int:
        """Episodes that are not delivered yet, leased ones included."""
        return group.left + sum(slot.held for slot in self.slots.values() if slot.group is group)

    def _advance(self, now: float) -> None:
        self.now = max(self.now, now)

    def _observe(self, worker: WorkerSlot, played: int) -> None:
        """A worker with leases was busy since it was last heard of; a suspect plays alone and tells nothing of a rate."""
        if not worker.suspected:
            worker.group.played += played
            worker.group.busy += self.now - worker.last_heard
        worker.last_heard = self.now

    # -- decisions ----------------------------------------------------------------------------------------------------
    def _release(self, slot: int) -> WorkerSlot:
        worker = self.slots.pop(slot)
        self.nodes.give(worker.node, worker.group.demand.gpus, worker.shared)
        return worker

    def _requeue_lost(self, slot: int, reason: str) -> list[Command]:
        """Requeue what a lost worker held; count the failed start, or the episode that it died with alone."""
        worker = self._release(slot)
        commands: list[Command] = []
        if not worker.ready:
            worker.group.failed_starts += 1
            loaded = any(other.ready for other in self.slots.values() if other.group is worker.group)
            if worker.group.failed_starts >= MAX_FAILED_STARTS and not loaded:
                commands += self._abandon(worker.group, reason)
        held = [tuple(lease) for lease in worker.leases.values() if lease]
        for ordinals in held:
            if len(held) == len(ordinals) == 1 and self._isolated_twice(worker.group, ordinals[0]):
                commands.append(GiveUp(ordinals, reason, worker.group.name))
            else:
                self._suspect(worker.group, ordinals)
        return commands

    def _isolated_twice(self, group: WorkerGroup, ordinal: int) -> bool:
        """Count one more worker that died with this episode alone; true at ``MAX_LONE_DEATHS``."""
        self.lone_deaths[group.name, ordinal] += 1
        return self.lone_deaths[group.name, ordinal] >= MAX_LONE_DEATHS

    def _suspect(self, group: WorkerGroup, ordinals: tuple[int, ...]) -> None:
        """Put back what a dead worker held: episodes that only waited into the queue, those in play into smaller leases."""
        in_play = ordinals[:MAX_SUSPECTS]
        group.waiting.extendleft(reversed(ordinals[MAX_SUSPECTS:]))
        size = SUSPECT_LEASE if len(in_play) > SUSPECT_LEASE else 1
        group.suspects.extend(in_play[first : first + size] for first in range(0, len(in_play), size))

    def _abandon_too_wide(self) -> list[Command]:
        commands: list[Command] = []
        for group in self.groups.values():
            demand = group.demand
            most = min(self.nodes.widest(demand.accelerator), self.shares.get(demand.pool, demand.gpus))
            if group.left and demand.gpus > most:
                where = "a node of the cluster" if len(self.nodes.nodes) > 1 else "the cluster"
                needs = f"{group.name} needs {demand.told}, {where} has {most:g}"
                commands += self._abandon(group, needs)
        return commands

    def _abandon(self, group: WorkerGroup, reason: str) -> list[Command]:
        group.suspects.clear()
        group.waiting.clear()
        group.abandoned = True
        return [Abandon(group.name, reason)]

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

    def _next_to_start(self) -> WorkerGroup | None:
        """The next group to have one more replica.

        A group that its replicas cannot finish by the time a perfect schedule would end comes first, wide ones before
        narrow ones, so that narrow ones fill the gaps and no wide one waits for them; then the longest work per replica.
        """
        fitting = [group for group in self.groups.values() if group.left and self._fits(group)]
        if not fitting:
            return None
        replicas = Counter(slot.group.name for slot in self.slots.values())
        work = {group.name: self.remaining(group) / group.rate for group in fitting}
        paying = [group for group in fitting if self._replica_pays(group, work[group.name])]
        horizon = self._horizon() if len(paying) > 1 else 0.0

        def need(group: WorkerGroup) -> tuple[bool, float, float]:
            count, seconds = replicas[group.name], work[group.name]
            behind = count * max(horizon - group.start, 0.0) < seconds if count else True
            return behind, group.demand.gpus if behind else 0, seconds / (count + 1)

        return max(paying, key=need, default=None)

    def _fits(self, group: WorkerGroup) -> bool:
        demand = group.demand
        if demand.after and self._awaits_answers(group):
            return False
        cpus = self.cpus - cpus_taken(self.slots.values(), self._room(demand))
        if demand.cpus > cpus and not (demand.gpus == 0 and not self.slots):
            return False
        if not demand.gpus:
            return True
        return demand.gpus <= self._free_in_pool(demand.pool) and self._room(demand) is not None

    def _room(self, demand: Demand) -> Place | None:
        """Where a replica fits; a node that workers leave for a wider one takes none that is no wider than they are."""
        if not demand.gpus:
            return Place()
        kept = {slot.node for slot in self.slots.values() if slot.leaving and slot.group.demand.gpus >= demand.gpus}
        return self.nodes.best(demand.gpus, demand.accelerator, kept)

    def _free_in_pool(self, pool: str) -> float:
        """GPUs that the pool may still take."""
        if pool not in self.shares:
            return self.nodes.total
        return self.shares[pool] - sum(s.group.demand.gpus for s in self.slots.values() if s.group.demand.pool == pool)

    def _replica_pays(self, group: WorkerGroup, seconds: float) -> bool:
        """Whether one more replica ends the group's ``seconds`` of work sooner, replicas that still start included.

        While another group waits for its first worker, each replica must even have more than a start's work left.
        """
        slots = [slot for slot in self.slots.values() if slot.group is group]
        if not slots:
            return True
        if len(slots) >= group.demand.replicas or group.left <= len(slots) * LEASES_PER_WORKER:
            return False
        if self._some_without_worker():
            return seconds / len(slots) > group.start
        ready = [self.now if slot.ready else max(self.now, slot.began + group.start) for slot in slots]
        saved = finish_time(ready, seconds) - finish_time([*ready, self.now + group.start], seconds)
        return saved > MIN_GAIN * group.start

    def _some_without_worker(self) -> bool:
        staffed = {slot.group.name for slot in self.slots.values()}
        return any(group.left and group.name not in staffed for group in self.groups.values())

    def _horizon(self) -> float:
        """Seconds to the end if all pending work were spread evenly over all GPUs."""
        pending = [(group.demand.gpus, self.remaining(group) / group.rate) for group in self.groups.values()]
        return sum(gpus * seconds for gpus, seconds in pending) / max(1, self.nodes.total)

    def _make_room(self) -> None:
        """Narrower workers of a node or of a shared GPU take no new lease when a group has work, no worker, and no room."""
        replicas = {slot.group.name for slot in self.slots.values()}
        for group in self.groups.values():
            demand = group.demand
            waits = group.left and demand.gpus and group.name not in replicas
            if waits and demand.gpus <= self._free_in_pool(demand.pool):
                for slot in fewest_leaving(self.slots.values(), self.nodes, demand):
                    slot.leaving = True

    def _awaits_answers(self, judge: WorkerGroup) -> bool:
        """Whether answers for this judge are still being written."""
        return any(group.demand.judge == judge.name and self.remaining(group) for group in self.groups.values())

    def _judge_is_behind(self, group: WorkerGroup) -> bool:
        """Whether the group's judge is at work and has ``MAX_UNREAD`` answers to read."""
        judge = self.groups.get(group.demand.judge)
        return judge is not None and judge.left >= MAX_UNREAD and any(s.group is judge for s in self.slots.values())

    def _keeps_idle(self, worker: WorkerSlot) -> bool:
        """Whether a worker without a lease stays: a judge until answers arrive, a writer until its judge has caught up."""
        if worker.leaving:
            return False
        group = worker.group
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
