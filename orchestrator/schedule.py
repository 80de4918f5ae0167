"""The schedule decides and holds no device: events come in, commands go out, and equal events give equal commands.

Every owed episode is in exactly one place: waiting in its group's queue, leased to one worker, delivered, or given up.
``run.py`` acts on the commands with Ray; a simulator can act on them with a virtual clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LEASES_PER_WORKER = 2
"""Two leases in flight keep a worker busy while the next one is on its way."""
LEASE_MOST = 2048
"""Episodes a lease holds at most: a few seconds of work for the fastest policy, so little is lost with a worker."""
LEASE_SPREAD = 4
"""Towards the end a lease is at most this fraction of what is left per worker, so that no straggler holds the sweep."""
PATIENCE = 2
"""Workers that die while playing one episode alone before it is set aside as failed; workers also die for other reasons."""
SUSPECTS = 128
"""Of a lease that died: so many of its first undelivered episodes may have been in play; the others only waited there."""
COMPANY = 16
"""Suspects are played again so many at a time, and one by one if that kills another worker."""
STARTS = 3
"""Failed starts in a row after which a group is abandoned."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one replica of a group takes, and how many there may be."""

    cpus: float = 1.0
    gpus: int = 0
    replicas: int = 64


@dataclass(frozen=True, slots=True)
class Start:
    slot: int
    group: str


@dataclass(frozen=True, slots=True)
class Lease:
    slot: int
    lease: int
    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    slot: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """These episodes end as FAILED with this reason."""

    ordinals: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Nobody can play this group in this attempt; its episodes stay owed, so that the next attempt tries again."""

    group: str
    reason: str


Command = Start | Lease | Stop | GiveUp | Abandon


@dataclass
class Group:
    """One model's work, or that of all built-in policies."""

    name: str
    demand: Demand
    waiting: deque[int]
    suspects: deque[tuple[int, ...]] = field(default_factory=deque)
    """Small leases of episodes that were in play when a worker died: the guilty one shows itself in the end."""
    failed_starts: int = 0

    @property
    def left(self) -> int:
        """Episodes that nobody plays yet."""
        return len(self.waiting) + sum(map(len, self.suspects))


@dataclass
class Slot:
    """One worker's place, from the command that starts it to its end."""

    group: Group
    ready: bool = False
    suspected: bool = False
    """Whether it plays a lease of suspects, and so nothing beside it."""
    leases: dict[int, dict[int, None]] = field(default_factory=dict)
    """Lease -> what it has not delivered, in the order in which it is played."""


class Schedule:
    """The state; each event method returns the commands that follow from it."""

    def __init__(
        self, owed: Mapping[str, Sequence[int]], demands: Mapping[str, Demand], cpus: float, gpus: int
    ) -> None:
        self.groups = {name: Group(name, demands[name], deque(queue)) for name, queue in owed.items()}
        self.cpus, self.gpus = cpus, gpus
        self.slots: dict[int, Slot] = {}
        self.alone: Counter[int] = Counter()
        """Episode -> workers that died while playing nothing else."""
        self._slots = 0
        self._leases = 0

    @property
    def done(self) -> bool:
        """Whether nothing is waiting and nothing is leased."""
        return not any(group.left for group in self.groups.values()) and not any(s.leases for s in self.slots.values())

    # -- events -------------------------------------------------------------------------------------------------------
    def begin(self) -> list[Command]:
        """The sweep starts."""
        return self._impossible() + self._place()

    def ready(self, slot: int) -> list[Command]:
        """A worker has loaded its engines."""
        self.slots[slot].ready = True
        self.slots[slot].group.failed_starts = 0
        return self._feed(slot)

    def delivered(self, slot: int, lease: int, ordinals: Sequence[int]) -> list[Command]:
        """A block of episodes is safe with the driver."""
        if slot in self.slots and lease in self.slots[slot].leases:
            for ordinal in ordinals:
                self.slots[slot].leases[lease].pop(ordinal, None)
        return []

    def drained(self, slot: int, lease: int) -> list[Command]:
        """A lease's stream has ended in good order; what it did not deliver waits again."""
        if slot not in self.slots:
            return []
        place = self.slots[slot]
        place.group.waiting.extendleft(reversed(place.leases.pop(lease, {})))
        place.suspected = False
        return self._feed(slot)

    def died(self, slot: int, reason: str) -> list[Command]:
        """A worker is gone, and with it what it had not delivered."""
        if slot not in self.slots:
            return []
        place = self.slots.pop(slot)
        commands: list[Command] = []
        if not place.ready:
            place.group.failed_starts += 1
            if place.group.failed_starts >= STARTS:
                commands += self._abandon(place.group, reason)
        held = [tuple(lease) for lease in place.leases.values() if lease]
        for ordinals in held:
            if len(held) == len(ordinals) == 1 and self._guilty(ordinals[0]):
                commands.append(GiveUp(ordinals, reason))
            else:
                self._suspect(place.group, ordinals)
        return commands + self._place()

    def hopeless(self, slot: int, reason: str) -> list[Command]:
        """A worker says that no worker can play its group: a missing package, a refused key, a spent budget."""
        if slot not in self.slots:
            return []
        group = self.slots.pop(slot).group
        return [*self._abandon(group, reason), *self._place()]

    # -- decisions ----------------------------------------------------------------------------------------------------
    def _guilty(self, ordinal: int) -> bool:
        """Count one more worker that died with this episode alone; true when that is enough."""
        self.alone[ordinal] += 1
        return self.alone[ordinal] >= PATIENCE

    def _suspect(self, group: Group, ordinals: tuple[int, ...]) -> None:
        """Put back what a dead worker held: what only waited in its queue, what was in play into smaller company."""
        in_play = ordinals[:SUSPECTS]
        group.waiting.extendleft(reversed(ordinals[SUSPECTS:]))
        size = COMPANY if len(in_play) > COMPANY else 1
        group.suspects.extend(in_play[first : first + size] for first in range(0, len(in_play), size))

    def _impossible(self) -> list[Command]:
        commands: list[Command] = []
        for group in self.groups.values():
            if group.demand.gpus > self.gpus:
                reason = f"{group.name} needs {group.demand.gpus} GPUs, the cluster has {self.gpus}"
                commands += self._abandon(group, reason)
        return commands

    def _abandon(self, group: Group, reason: str) -> list[Command]:
        group.suspects.clear()
        group.waiting.clear()
        return [Abandon(group.name, reason)]

    def _place(self) -> list[Command]:
        """Start workers while something fits: next is the group with the most work per replica."""
        commands: list[Command] = []
        while (group := self._neediest()) is not None:
            self._slots += 1
            self.slots[self._slots] = Slot(group)
            commands.append(Start(self._slots, group.name))
        return commands

    def _neediest(self) -> Group | None:
        cpus = self.cpus - sum(slot.group.demand.cpus for slot in self.slots.values())
        gpus = self.gpus - sum(slot.group.demand.gpus for slot in self.slots.values())
        fitting = [
            group
            for group in self.groups.values()
            if group.left > self._replicas(group) * LEASES_PER_WORKER
            and self._replicas(group) < group.demand.replicas
            and group.demand.gpus <= gpus
            and (group.demand.cpus <= cpus or (group.demand.gpus == 0 and not self.slots))
        ]
        return max(fitting, key=lambda group: group.left / (self._replicas(group) + 1), default=None)

    def _replicas(self, group: Group) -> int:
        return sum(slot.group is group for slot in self.slots.values())

    def _feed(self, slot: int) -> list[Command]:
        """Leases for a ready worker; a worker without work stops and its place goes to another group."""
        place = self.slots[slot]
        commands: list[Command] = []
        while len(place.leases) < LEASES_PER_WORKER and (ordinals := self._next(place)):
            self._leases += 1
            place.leases[self._leases] = dict.fromkeys(ordinals)
            commands.append(Lease(slot, self._leases, ordinals))
        if not place.leases:
            del self.slots[slot]
            return [Stop(slot), *self._place()]
        return commands

    def _next(self, place: Slot) -> tuple[int, ...]:
        group = place.group
        if place.suspected:
            return ()
        if group.suspects and not place.leases:
            place.suspected = True
            return group.suspects.popleft()
        if group.suspects and not group.waiting:
            return ()
        fair = len(group.waiting) // (self._replicas(group) * LEASE_SPREAD)
        size = min(len(group.waiting), max(1, min(LEASE_MOST, fair)))
        return tuple(group.waiting.popleft() for _ in range(size))
