"""The scheduler's state: groups of workers that play one model, and the slot of each worker.

Every pending episode is in one place: waiting or suspected in its group, or leased to one slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Nodes, Place

LEASES_PER_WORKER = 2
"""Two leases in flight keep a worker busy while the next one is on its way."""
PRIOR_WEIGHT_S = 60.0
"""Seconds of observation that weigh as much as the rate estimated beforehand."""


SILENCE_TIMEOUT_S = 900.0
"""Seconds a worker with a lease may say nothing before its work is taken back."""
MIN_SILENCE_TIMEOUT_S = 180.0
"""The least that ``silence`` is cut to where a group's rate has been observed: ``SILENCE_ROUNDS`` rounds of a full engine."""
SILENCE_ROUNDS = 10.0
LATE_FACTOR = 8.0
"""A lease that takes so many times what its group's rate promises is taken back, too, once ``SILENCE_TIMEOUT_S`` has passed."""
MAX_LEASE_EPISODES = 2048
"""Episodes a lease holds at most: a few seconds of work for the fastest policy, so little is lost with a worker."""
LEASE_TARGET_S = 60.0
"""Seconds of work in a lease where the rate is known, so that a slow model's worker never holds an hour of work."""
LEASE_SPREAD = 4
"""Towards the end a lease is at most this fraction of what is left per worker, so that no slow lease delays the end."""


@dataclass
class WorkerGroup:
    """One model's work, or that of all built-in policies."""

    name: str
    demand: Demand
    waiting: deque[int]
    suspects: deque[tuple[int, ...]] = field(default_factory=deque)
    """Small leases of episodes that were in play when a worker died: split until the crashing episode is isolated."""
    failed_starts: int = 0
    losses: int = 0
    """Workers lost in a row without an episode between them, where its work is ``Demand.unhurried`` or it ``serves``."""
    played: int = 0
    """Episodes delivered, over ``busy`` seconds of its replicas."""
    busy: float = 0.0
    answered: int = 0
    """Requests of other groups' episodes, where it ``serves``."""
    starts: list[float] = field(default_factory=list)
    """Seconds that its replicas took to start."""
    abandoned: bool = False
    """Whether it was given up: what arrives for it later waits for another attempt."""

    cancelled: list[Container[int]] = field(default_factory=list)
    """Episodes that nobody is to play any more in this attempt."""
    paused: Container[int] = ()
    withdrawn: Container[int] = ()
    """Cancelled by somebody who may take that back."""
    parked: deque[int] = field(default_factory=deque)
    """What is paused and not leased: it is pending, and nobody plays it."""
    dropped: deque[int] = field(default_factory=deque)
    """What is withdrawn and not leased."""
    parked_since: float = 0.0

    def cancel(self, ordinals: Container[int]) -> None:
        """Take these out of the queues, and remember that they are not to come back."""
        self.cancelled.append(ordinals)
        self._sort_out(())

    def hold(self, paused: Container[int], withdrawn: Container[int]) -> None:
        """Keep these out of the queues from now on, and bring back what was kept out before and is in neither."""
        self.paused, self.withdrawn = paused, withdrawn
        aside = (*self.dropped, *self.parked)
        self.dropped.clear()
        self.parked.clear()
        self._sort_out(aside)

    def _sort_out(self, more: Iterable[int]) -> None:
        self.suspects = deque(kept for lease in self.suspects if (kept := self.wanted(lease)))
        self.waiting = deque(self.wanted((*self.waiting, *more)))

    def wanted(self, ordinals: Iterable[int]) -> tuple[int, ...]:
        """Those of the episodes that may be handed out; the others are parked or dropped."""
        kept = list[int]()
        for one in ordinals:
            if any(one in cancelled for cancelled in self.cancelled):
                continue
            queue = self.dropped if one in self.withdrawn else self.parked if one in self.paused else kept
            queue.append(one)
        return tuple(kept)

    def barred(self, one: int) -> bool:
        """Whether an episode is cancelled, withdrawn or paused."""
        return one in self.paused or one in self.withdrawn or any(one in cancelled for cancelled in self.cancelled)

    @property
    def left(self) -> int:
        """Episodes that nobody plays yet."""
        return len(self.waiting) + sum(map(len, self.suspects))

    @property
    def known(self) -> bool:
        """Whether its rate is more than a guess."""
        return self.demand.rate is not None or (self.busy > 0 and self.played > 0)

    @property
    def rate(self) -> float:
        """Episodes/s of one replica: what was estimated, corrected by what was seen; 1 where nothing is known."""
        if self.demand.rate is None:
            return self.played / self.busy if self.known else 1.0
        return (self.demand.rate * PRIOR_WEIGHT_S + self.played) / (PRIOR_WEIGHT_S + self.busy)

    def silence_timeout(self, silence: float) -> float:
        """Seconds a worker of this group may send nothing: ``silence``, or less where its rate is known."""
        if self.demand.unhurried:
            return float("inf")
        if self.demand.serves:
            return silence / 2  # before those that wait for it count as silent
        if self.busy < PRIOR_WEIGHT_S or not self.played:
            return silence
        return min(silence, max(MIN_SILENCE_TIMEOUT_S, SILENCE_ROUNDS * self.demand.at_once / self.rate))

    def lease_size(self, replicas: int) -> int:
        """Episodes of the next lease: a minute's work, less towards the end, but enough to keep an engine full.

        Of unhurried work as much as a worker plays at once.
        """
        at_once, waiting = self.demand.at_once, len(self.waiting)
        if self.demand.unhurried:
            return min(waiting, at_once)
        fair = max(min(at_once, -(-waiting // replicas)), waiting // (replicas * LEASE_SPREAD))
        most = max(at_once, int(self.rate * LEASE_TARGET_S)) if self.known else MAX_LEASE_EPISODES
        return min(waiting, max(1, min(MAX_LEASE_EPISODES, most, fair)))

    @property
    def start(self) -> float:
        """Seconds that a replica takes to start."""
        return (self.demand.start + sum(self.starts)) / (1 + len(self.starts)) if self.known else 0.0


@dataclass
class WorkerSlot:
    """One worker, from the command that starts it to its end."""

    group: WorkerGroup
    node: str = ""
    began: float = 0.0
    last_heard: float = 0.0
    """Time of its last message, or of its first lease after having none."""
    ready: bool = False
    suspected: bool = False
    """Whether it plays a lease of suspects, and so nothing beside it."""
    leaving: bool = False
    """Whether it takes no new lease, because a wider model needs its GPU."""
    leases: dict[int, dict[int, None]] = field(default_factory=dict)
    """Lease -> what it has not delivered, in the order in which it is played."""
    due: dict[int, float] = field(default_factory=dict)
    """Lease -> when it is far too late."""
    shared: int | None = None
    """The number of the shared GPU that it has a part of; None where its GPUs are its own."""

    @property
    def held(self) -> int:
        """Episodes leased here and not delivered."""
        return sum(map(len, self.leases.values()))

    @property
    def leased(self) -> tuple[int, ...]:
        """Episodes leased here and not delivered."""
        return tuple(one for lease in self.leases.values() for one in lease)

    def deadline(self, now: float, silence: float) -> float:
        """When the newest lease here is far too late; never, where no pace is known."""
        told = self.group.known and not self.group.demand.unhurried
        promised = self.held / self.group.rate if told else 0.0
        return now + silence + LATE_FACTOR * promised if promised else float("inf")

    def wait(self, now: float, silence: float) -> None:
        """It could not go on until now: nothing of that counts as silence or as a lease's delay."""
        self.last_heard = now
        self.due = {lease: max(due, now + silence) for lease, due in self.due.items()}

    @property
    def wants_work(self) -> bool:
        """Whether it takes one more lease: two, or as many small ones as its engine can play at once."""
        return len(self.leases) < LEASES_PER_WORKER or self.held < self.group.demand.at_once


def finish_time(ready: Sequence[float], work: float) -> float:
    """Time at which replicas, ready at these times, have done ``work`` replica-seconds between them; infinity without one."""
    times, total, end = sorted(ready), 0.0, float("inf")
    for count, time in enumerate(times, start=1):
        if time >= end:
            break
        total += time
        end = (total + work) / count
    return end


def cpus_taken(slots: Iterable[WorkerSlot], place: Place | None) -> float:
    """CPUs that a replica for this place finds taken: those beside a shared GPU once, and not where it joins that one."""
    joined = place.shared if place else None
    found = {n if slot.shared is None else ("shared", slot.shared): slot for n, slot in enumerate(slots)}
    return sum(s.group.demand.cpus for s in found.values() if s.shared is None or s.shared != joined)


def fewest_leaving(slots: Iterable[WorkerSlot], nodes: Nodes, wide: Demand) -> list[WorkerSlot]:
    """The narrower workers that must leave to make room for a wide one, where they are fewest: on a node, or of a shared GPU."""
    slots, found = list(slots), list[list[WorkerSlot]]()
    for node in nodes.nodes:
        if wide.accelerator not in ("", node.accelerator):
            continue
        here = [s for s in slots if s.node == node.name and 0 < s.group.demand.gpus < wide.gpus]
        if wide.gpus >= 1:
            rooms = [(Fraction(nodes.free[node.name]), _blocks(here))]
        else:
            shared = [(number, gpu.free) for number, gpu in nodes.shared.items() if gpu.node == node.name]
            rooms = [(free, [[s] for s in here if s.shared == number]) for number, free in shared]
        for free, blocks in rooms:
            leaving = list[WorkerSlot]()
            for block in sorted(blocks, key=_leaves_first):
                if free < wide.gpus:
                    leaving += block
                    free += (
                        1 if block[0].shared is not None and wide.gpus >= 1 else Fraction(block[0].group.demand.gpus)
                    )
            if free >= wide.gpus:
                found.append(leaving)
    return min(found, key=len, default=[])


def _blocks(slots: Iterable[WorkerSlot]) -> list[list[WorkerSlot]]:
    """Workers that free whole GPUs only together: those of one shared GPU, and each other one by itself."""
    found: dict[tuple[int, int], list[WorkerSlot]] = {}
    for number, slot in enumerate(slots):
        key = (0, number) if slot.shared is None else (1, slot.shared)
        found.setdefault(key, []).append(slot)
    return list(found.values())


def _leaves_first(block: Sequence[WorkerSlot]) -> tuple[bool, bool, float]:
    """Those that leave already, then those that still start, then the oldest."""
    return not all(s.leaving for s in block), any(s.ready for s in block), min(s.began for s in block)
