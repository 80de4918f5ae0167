"""What the schedule knows of a group of workers and of each of its places: every pending episode waits here or is leased here."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.scheduling.commands import Demand

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


@dataclass
class Group:
    """One model's work, or that of all built-in policies."""

    name: str
    demand: Demand
    waiting: deque[int]
    suspects: deque[tuple[int, ...]] = field(default_factory=deque)
    """Small leases of episodes that were in play when a worker died: the guilty one shows itself in the end."""
    failed_starts: int = 0
    played: int = 0
    """Episodes delivered, over ``busy`` seconds of its replicas."""
    busy: float = 0.0
    starts: list[float] = field(default_factory=list)
    """Seconds that its replicas took to start."""
    gone: bool = False
    """Whether it was abandoned: what arrives for it later waits for another attempt."""

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

    def patience(self, silence: float) -> float:
        """Seconds a worker of this group may say nothing: ``silence``, or less where its pace is known."""
        if self.busy < PRIOR_WEIGHT_S or not self.played:
            return silence
        return min(silence, max(MIN_SILENCE_TIMEOUT_S, SILENCE_ROUNDS * self.demand.at_once / self.rate))

    @property
    def start(self) -> float:
        """Seconds that a replica takes to start."""
        return (self.demand.start + sum(self.starts)) / (1 + len(self.starts)) if self.known else 0.0


@dataclass
class Slot:
    """One worker's place, from the command that starts it to its end."""

    group: Group
    node: str = ""
    began: float = 0.0
    heard: float = 0.0
    """When it last said something, or was given work after having none."""
    ready: bool = False
    suspected: bool = False
    """Whether it plays a lease of suspects, and so nothing beside it."""
    leaving: bool = False
    """Whether it takes no new lease, because a wider model needs its GPU."""
    leases: dict[int, dict[int, None]] = field(default_factory=dict)
    """Lease -> what it has not delivered, in the order in which it is played."""
    due: dict[int, float] = field(default_factory=dict)
    """Lease -> when it is far too late."""

    @property
    def held(self) -> int:
        """Episodes leased here and not delivered."""
        return sum(map(len, self.leases.values()))

    def deadline(self, now: float, silence: float) -> float:
        """When the newest lease here is far too late; never, where no pace is known."""
        promised = self.held / self.group.rate if self.group.known else 0.0
        return now + silence + LATE_FACTOR * promised if promised else float("inf")

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
