"""The schedule decides and holds no device: events come in, commands go out, and equal events give equal commands.

Every pending episode is in exactly one place: waiting in its group's queue, leased to one worker, delivered, or given up.
Events carry the time, and no clock is read here: ``run.py`` acts on the commands with Ray, ``simulate.py`` with a virtual clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from orchestrator.scheduling.commands import Abandon, Command, Demand, Drop, GiveUp, Lease, Start, Stop
from orchestrator.scheduling.nodes import Node, Nodes, nodes_of
from orchestrator.scheduling.state import (
    LATE_FACTOR,
    LEASES_PER_WORKER,
    SILENCE_TIMEOUT_S,
    Group,
    Slot,
    finish_time,
)

__all__ = ["Abandon", "Command", "Demand", "Drop", "GiveUp", "Lease", "Scheduler", "Start", "Stop"]

MAX_LEASE = 2048
"""Episodes a lease holds at most: a few seconds of work for the fastest policy, so little is lost with a worker."""
LEASE_SPREAD = 4
"""Towards the end a lease is at most this fraction of what is left per worker, so that no straggler holds the sweep."""
MAX_LONE_DEATHS = 2
"""Workers that die while playing one episode alone before it is set aside as failed; workers also die for other reasons."""
MAX_SUSPECTS = 128
"""Of a lease that died: so many of its first undelivered episodes may have been in play; the others only waited there."""
SUSPECT_LEASE = 16
"""Suspects are played again so many at a time, and one by one if that kills another worker."""
MAX_FAILED_STARTS = 3
"""Failed starts in a row after which a group is abandoned."""
LEASE_SECONDS = 60.0
"""A lease holds about so much work where the rate is known: a slow model's worker never hoards an hour of it."""
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
        shares: Mapping[str, int] | None = None,
        together: Callable[[int, int], bool] = lambda one, other: False,
        silence: float = SILENCE_TIMEOUT_S,
    ) -> None:
        """``together`` tells whether two neighbours in a queue are one sample's, which no lease takes apart.

        ``silence``: seconds a worker with a lease may say nothing before its work is taken back.
        """
        self.groups = {name: Group(name, demands[name], deque(queue)) for name, queue in pending.items()}
        self.cpus = cpus
        self.nodes = Nodes(nodes or nodes_of(gpus))
        self.shares = dict(shares or {})
        """Pool -> GPUs it may take at once; a pool that is not named may take all."""
        self.together, self.silence = together, silence
        self.slots: dict[int, Slot] = {}
        self.alone: Counter[int] = Counter()
        """Episode -> workers that died while playing nothing else."""
        self.now = self.changed = 0.0
        self._slots = 0
        self._leases = 0

    @property
    def done(self) -> bool:
        """Whether nothing is waiting and nothing is leased."""
        return not any(group.left for group in self.groups.values()) and not any(s.leases for s in self.slots.values())

    # -- events -------------------------------------------------------------------------------------------------------
    def begin(self, now: float = 0.0) -> list[Command]:
        """The sweep starts."""
        self._at(now)
        return self._impossible() + self._place()

    def ready(self, slot: int, now: float = 0.0) -> list[Command]:
        """A worker has loaded its engines."""
        self._at(now)
        if slot not in self.slots:
            return []
        place = self.slots[slot]
        place.ready, place.heard, place.group.failed_starts = True, self.now, 0
        place.group.starts.append(self.now - place.began)
        return self._assign(slot)

    def delivered(self, slot: int, lease: int, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """A block of episodes is safe with the driver."""
        self._at(now)
        if slot in self.slots and lease in self.slots[slot].leases:
            self._observe(self.slots[slot], len(ordinals))
            for ordinal in ordinals:
                self.slots[slot].leases[lease].pop(ordinal, None)
        return self._assign_idle()

    def arrived(self, name: str, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """Answers are there for a judge to read."""
        self._at(now)
        group = self.groups[name]
        if group.gone:
            return []
        group.waiting.extend(ordinals)
        return self._impossible() + self._assign_idle() + self._place()

    def drained(self, slot: int, lease: int, now: float = 0.0) -> list[Command]:
        """A lease's stream has ended in good order; what it did not deliver waits again."""
        self._at(now)
        if slot not in self.slots:
            return []
        place = self.slots[slot]
        self._observe(place, 0)
        place.due.pop(lease, None)
        place.group.waiting.extendleft(reversed(place.leases.pop(lease, {})))
        place.suspected = False
        return self._assign(slot)

    def died(self, slot: int, reason: str, now: float = 0.0) -> list[Command]:
        """A worker is gone, and with it what it had not delivered."""
        self._at(now)
        return self._requeue_lost(slot, reason) + self._assign_idle() + self._place() if slot in self.slots else []

    def hopeless(self, slot: int, reason: str, now: float = 0.0) -> list[Command]:
        """A worker says that no worker can play its group: a missing package, a refused key, a spent budget."""
        self._at(now)
        if slot not in self.slots:
            return []
        return [*self._abandon(self._vacate(slot).group, reason), *self._assign_idle(), *self._place()]

    def tick(self, now: float) -> list[Command]:
        """Time has passed: what silent and far too slow workers hold is pending again, and free GPUs find work."""
        self._at(now)
        commands: list[Command] = []
        for slot, place in list(self.slots.items()):
            late = [lease for lease, due in place.due.items() if self.now > due]
            silent = self.now - place.heard > place.group.patience(self.silence)
            if place.leases and (silent or late):
                reason = f"silent for {self.now - place.heard:.0f} s" if silent else f"{LATE_FACTOR:g} times too slow"
                commands += [Drop(slot, reason), *self._requeue_lost(slot, reason)]
        if not self.slots and self.now - self.changed > self.silence:
            commands += self._impossible()
        return commands + self._assign_idle() + self._place()

    def resized(self, nodes: Sequence[Node], cpus: float, now: float) -> list[Command]:
        """The cluster has other nodes now; the workers of a lost one are heard of as they die."""
        self._at(now)
        self.nodes, self.cpus, self.changed = Nodes(nodes), cpus, self.now
        for place in self.slots.values():
            self.nodes.take(place.node, place.group.demand.gpus)
        return self._place()

    # -- what is known --------------------------------------------------------------------------------------------------
    def remaining(self, group: Group) -> int:
        """Episodes that are not delivered yet, leased ones included."""
        return group.left + sum(slot.held for slot in self.slots.values() if slot.group is group)

    def _at(self, now: float) -> None:
        self.now = max(self.now, now)

    def _observe(self, place: Slot, played: int) -> None:
        """A worker with leases was busy since it was last heard of; a suspect plays alone and tells nothing of a rate."""
        if not place.suspected:
            place.group.played += played
            place.group.busy += self.now - place.heard
        place.heard = self.now

    # -- decisions ----------------------------------------------------------------------------------------------------
    def _vacate(self, slot: int) -> Slot:
        place = self.slots.pop(slot)
        self.nodes.give(place.node, place.group.demand.gpus)
        return place

    def _requeue_lost(self, slot: int, reason: str) -> list[Command]:
        """Put back what a lost worker held, and see what the loss says about its group and its episodes."""
        place = self._vacate(slot)
        commands: list[Command] = []
        if not place.ready:
            place.group.failed_starts += 1
            loaded = any(other.ready for other in self.slots.values() if other.group is place.group)
            if place.group.failed_starts >= MAX_FAILED_STARTS and not loaded:
                commands += self._abandon(place.group, reason)
        held = [tuple(lease) for lease in place.leases.values() if lease]
        for ordinals in held:
            if len(held) == len(ordinals) == 1 and self._isolated_twice(ordinals[0]):
                commands.append(GiveUp(ordinals, reason))
            else:
                self._suspect(place.group, ordinals)
        return commands

    def _isolated_twice(self, ordinal: int) -> bool:
        """Count one more worker that died with this episode alone; true when that is enough."""
        self.alone[ordinal] += 1
        return self.alone[ordinal] >= MAX_LONE_DEATHS

    def _suspect(self, group: Group, ordinals: tuple[int, ...]) -> None:
        """Put back what a dead worker held: what only waited in its queue, what was in play into smaller company."""
        in_play = ordinals[:MAX_SUSPECTS]
        group.waiting.extendleft(reversed(ordinals[MAX_SUSPECTS:]))
        size = SUSPECT_LEASE if len(in_play) > SUSPECT_LEASE else 1
        group.suspects.extend(in_play[first : first + size] for first in range(0, len(in_play), size))

    def _impossible(self) -> list[Command]:
        commands: list[Command] = []
        for group in self.groups.values():
            demand = group.demand
            most = min(self.nodes.widest(demand.accelerator), self.shares.get(demand.pool, demand.gpus))
            if group.left and demand.gpus > most:
                kind = f" of kind {demand.accelerator}" if demand.accelerator else ""
                where = "a node of the cluster" if len(self.nodes.nodes) > 1 else "the cluster"
                needs = f"{group.name} needs {demand.gpus} GPUs{kind}, {where} has {most}"
                commands += self._abandon(group, needs)
        return commands

    def _abandon(self, group: Group, reason: str) -> list[Command]:
        group.suspects.clear()
        group.waiting.clear()
        group.gone = True
        return [Abandon(group.name, reason)]

    def _place(self) -> list[Command]:
        """Start workers while something fits and gains by it."""
        commands: list[Command] = []
        while (group := self._neediest()) is not None:
            node = self.nodes.best(group.demand.gpus, group.demand.accelerator) if group.demand.gpus else ""
            assert node is not None, "only a group that fits is chosen"
            self.nodes.take(node, group.demand.gpus)
            self._slots += 1
            self.slots[self._slots] = Slot(group, node, self.now, self.now)
            commands.append(Start(self._slots, group.name, node))
        self._make_room()
        return commands

    def _neediest(self) -> Group | None:
        """The next group to have one more replica.

        A group that its replicas cannot finish by the time a perfect schedule would end comes first, wide ones before
        narrow ones, so that narrow ones fill the gaps and no wide one waits for them; then the longest work per replica.
        """
        fitting = [group for group in self.groups.values() if group.left and self._fits(group)]
        if not fitting:
            return None
        crews = Counter(slot.group.name for slot in self.slots.values())
        work = {group.name: self.remaining(group) / group.rate for group in fitting}
        gainful = [group for group in fitting if self._gains(group, work[group.name])]
        horizon = self._horizon() if len(gainful) > 1 else 0.0

        def need(group: Group) -> tuple[bool, int, float]:
            crew, seconds = crews[group.name], work[group.name]
            behind = crew * max(horizon - group.start, 0.0) < seconds if crew else True
            return behind, group.demand.gpus if behind else 0, seconds / (crew + 1)

        return max(gainful, key=need, default=None)

    def _fits(self, group: Group) -> bool:
        demand = group.demand
        if demand.after and self._expects(group):
            return False
        cpus = self.cpus - sum(slot.group.demand.cpus for slot in self.slots.values())
        if demand.cpus > cpus and not (demand.gpus == 0 and not self.slots):
            return False
        if not demand.gpus:
            return True
        return demand.gpus <= self._share(demand.pool) and self.nodes.best(demand.gpus, demand.accelerator) is not None

    def _share(self, pool: str) -> int:
        """GPUs that the pool may still take."""
        if pool not in self.shares:
            return self.nodes.total
        return self.shares[pool] - sum(s.group.demand.gpus for s in self.slots.values() if s.group.demand.pool == pool)

    def _gains(self, group: Group, seconds: float) -> bool:
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
        """Narrow workers on one node take no new lease when a wide group has work, no worker, and nowhere to go."""
        crews = {slot.group.name for slot in self.slots.values()}
        for group in self.groups.values():
            demand = group.demand
            if group.left and demand.gpus > 1 and group.name not in crews and demand.gpus <= self._share(demand.pool):
                self._clear(demand.gpus, demand.accelerator)

    def _clear(self, gpus: int, accelerator: str) -> None:
        """Pick the node where the fewest busy narrow workers must go."""
        chosen: list[Slot] | None = None
        for node in self.nodes.nodes:
            if accelerator and node.accelerator != accelerator:
                continue
            free, going = self.nodes.free[node.name], list[Slot]()
            narrow = [s for s in self.slots.values() if s.node == node.name and 0 < s.group.demand.gpus < gpus]
            for slot in sorted(narrow, key=lambda s: (not s.leaving, s.ready, s.began)):
                if free < gpus:
                    going.append(slot)
                    free += slot.group.demand.gpus
            if free >= gpus and (chosen is None or len(going) < len(chosen)):
                chosen = going
        for slot in chosen or ():
            slot.leaving = True

    def _expects(self, judge: Group) -> bool:
        """Whether answers for this judge are still being written."""
        return any(group.demand.judge == judge.name and self.remaining(group) for group in self.groups.values())

    def _held(self, group: Group) -> bool:
        """Whether the group's judge is at work and so far behind that more answers would only pile up."""
        judge = self.groups.get(group.demand.judge)
        return judge is not None and judge.left >= MAX_UNREAD and any(s.group is judge for s in self.slots.values())

    def _stays(self, place: Slot) -> bool:
        """Whether a worker without a lease waits: a judge for answers, a writer for its judge."""
        if place.leaving:
            return False
        group = place.group
        return (self._expects(group) and not self._starving()) or (group.left > 0 and self._held(group))

    def _starving(self) -> bool:
        """Whether a group has work, no worker, and no place, though its pool may take one: who only waits makes room."""
        crews = {slot.group.name for slot in self.slots.values()}
        return any(
            group.left and group.name not in crews and not self._fits(group)
            for group in self.groups.values()
            if group.demand.gpus <= self._share(group.demand.pool) and not group.demand.after
        )

    def _assign_idle(self) -> list[Command]:
        """Leases for workers that waited, or can take more."""
        commands: list[Command] = []
        for slot, place in list(self.slots.items()):
            if place.ready and slot in self.slots and (not place.leases or (place.group.waiting and place.wants_work)):
                commands += self._assign(slot)
        return commands

    def _assign(self, slot: int) -> list[Command]:
        """Leases for a ready worker; a worker without work stops and its place goes to another group."""
        place = self.slots[slot]
        commands: list[Command] = []
        while place.wants_work and (ordinals := self._next(place)):
            self._leases += 1
            place.leases[self._leases] = dict.fromkeys(ordinals)
            place.due[self._leases] = place.deadline(self.now, self.silence)
            commands.append(Lease(slot, self._leases, ordinals))
        if not place.leases and not self._stays(place):
            self._vacate(slot)
            commands.append(Stop(slot))
        commands += self._needless(place.group)
        return commands + self._place()

    def _needless(self, group: Group) -> list[Command]:
        """Stop workers that are still starting when nothing is left for them."""
        if group.left or self._expects(group):
            return []
        starting = [slot for slot, place in self.slots.items() if place.group is group and not place.ready]
        for slot in starting:
            self._vacate(slot)
        return [Stop(slot) for slot in starting]

    def _next(self, place: Slot) -> tuple[int, ...]:
        group = place.group
        if place.suspected or place.leaving or self._held(group):
            return ()
        if group.suspects and not place.leases:
            place.suspected = True
            return group.suspects.popleft()
        if group.suspects and not group.waiting:
            return ()
        leased = [group.waiting.popleft() for _ in range(self._size(group))]
        while leased and group.waiting and self.together(leased[-1], group.waiting[0]):
            leased.append(group.waiting.popleft())
        return tuple(leased)

    def _size(self, group: Group) -> int:
        """Episodes of the next lease: a minute's work, less towards the end, but enough to keep an engine full."""
        crew, waiting = sum(s.group is group for s in self.slots.values()), len(group.waiting)
        full = min(group.demand.at_once, -(-waiting // crew))
        fair = max(full, waiting // (crew * LEASE_SPREAD))
        most = max(group.demand.at_once, int(group.rate * LEASE_SECONDS)) if group.known else MAX_LEASE
        return min(waiting, max(1, min(MAX_LEASE, most, fair)))
