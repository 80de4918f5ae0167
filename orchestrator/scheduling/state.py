"""The scheduler's state: groups of workers that play one model, and one slot per worker.

Every pending episode is in one of them: waiting or suspected in its group, or leased to one slot.
"""

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Place

LEASES_PER_WORKER = 2
"""Two leases in flight keep a worker busy while the next one is on its way."""
PRIOR_WEIGHT_S = 60.0
"""Seconds of observation that weigh as much as the rate estimated beforehand."""

SILENCE_TIMEOUT_S = 900.0
"""Seconds without a message after which a worker with a lease loses its work."""
MIN_SILENCE_TIMEOUT_S = 180.0
"""The shortest timeout where a group's rate has been observed."""
SILENCE_ROUNDS = 10.0
"""Rounds of a full engine that a group with an observed rate may be silent."""
LATE_FACTOR = 8.0
"""Multiple of the expected time after which a lease is taken back, once ``SILENCE_TIMEOUT_S`` has passed."""
MAX_LEASE_EPISODES = 2048
"""Maximum episodes per lease: a few seconds of work for the fastest policy, so little is lost with a worker."""
LEASE_TARGET_S = 60.0
"""Seconds of work per lease if the rate is known, so that a slow model's worker never has an hour of work."""
LEASE_SPREAD = 4
"""Divisor of the work left per worker that bounds a lease, so that no slow lease delays the end."""


@dataclass
class WorkerGroup:
    """The work of one model, or of all built-in policies."""

    name: str
    demand: Demand
    waiting: deque[int]
    suspects: deque[tuple[int, ...]] = field(default_factory=deque)
    """Small leases of episodes that were in play when a worker died, split until the crashing episode is isolated."""
    lost_with_node: set[int] = field(default_factory=set)
    """Episodes that were in play when a node was lost."""
    failed_starts: int = 0
    losses: int = 0
    """Workers lost in a row with no episode delivered between, each ready after the loss before it."""
    last_loss_at: float = 0.0
    played: int = 0
    """Episodes delivered, over ``busy_s`` seconds of its replicas."""
    busy_s: float = 0.0
    answered: int = 0
    """Requests of other groups' episodes that a group with standing replicas has answered."""
    start_times: list[float] = field(default_factory=list)
    """Seconds that each of its replicas took to start."""
    abandoned: bool = False
    """True once it was abandoned; its new answers wait for another attempt."""
    cancelled: list[Container[int]] = field(default_factory=list)
    """Episodes that are not played any more in this attempt."""
    paused: Container[int] = ()
    withdrawn: Container[int] = ()
    """Episodes whose cancellation may be taken back."""
    parked: deque[int] = field(default_factory=deque)
    """Paused episodes that are not leased; they stay pending."""
    dropped: deque[int] = field(default_factory=deque)
    """Withdrawn episodes that are not leased."""
    parked_since: float = 0.0

    def cancel(self, ordinals: Container[int]) -> None:
        """Remove these from the queues for the rest of the attempt."""
        self.cancelled.append(ordinals)
        self._refilter(())

    def hold(self, paused: Container[int], withdrawn: Container[int]) -> None:
        """Keep exactly these out of the queues, and return all others that were held back to their queue."""
        self.paused, self.withdrawn = paused, withdrawn
        held_back = (*self.dropped, *self.parked)
        self.dropped.clear()
        self.parked.clear()
        self._refilter(held_back)

    def _refilter(self, returning: Iterable[int]) -> None:
        self.suspects = deque(playable for lease in self.suspects if (playable := self.filter_playable(lease)))
        self.waiting = deque(self.filter_playable((*self.waiting, *returning)))

    def filter_playable(self, ordinals: Iterable[int]) -> tuple[int, ...]:
        """Return the episodes that may be handed out, none of an abandoned group; park or drop the others."""
        playable = list[int]()
        if self.abandoned:
            return ()
        for ordinal in ordinals:
            if not self.is_held_back(ordinal):
                playable.append(ordinal)
            elif not any(ordinal in cancelled for cancelled in self.cancelled):
                (self.dropped if ordinal in self.withdrawn else self.parked).append(ordinal)
        return tuple(playable)

    def is_held_back(self, ordinal: int) -> bool:
        cancelled = any(ordinal in ordinals for ordinals in self.cancelled)
        return cancelled or ordinal in self.paused or ordinal in self.withdrawn

    @property
    def queued_count(self) -> int:
        """Number of episodes that are not leased yet."""
        return len(self.waiting) + sum(map(len, self.suspects))

    @property
    def has_rate(self) -> bool:
        """True if its rate is estimated or observed."""
        return self.demand.rate is not None or (self.busy_s > 0 and self.played > 0)

    @property
    def rate(self) -> float:
        """Episodes/s of one replica: the estimate, corrected by observation; 1 without either."""
        if self.demand.rate is None:
            return self.played / self.busy_s if self.has_rate else 1.0
        return (self.demand.rate * PRIOR_WEIGHT_S + self.played) / (PRIOR_WEIGHT_S + self.busy_s)

    @property
    def round_s(self) -> float:
        """Seconds that an episode takes in a full engine; 0 without a rate."""
        return self.demand.concurrency / self.rate if self.has_rate else 0.0

    def silence_timeout(self, silence: float) -> float:
        """Return the seconds a worker of this group may send nothing: ``silence``, or less if its rate is observed."""
        if self.demand.slow_batches:
            return float("inf")
        if self.demand.standing_replicas:
            return silence / 2  # before those that wait for it count as silent
        if self.busy_s < PRIOR_WEIGHT_S or not self.played:
            return silence
        return min(silence, max(MIN_SILENCE_TIMEOUT_S, SILENCE_ROUNDS * self.demand.concurrency / self.rate))

    def lease_size(self, replicas: int) -> int:
        """Return the number of episodes in the next lease.

        It is a minute's work, less towards the end, but enough to keep an engine full; for slow batches, as many as a worker
        plays at once.
        """
        concurrency, waiting = self.demand.concurrency, len(self.waiting)
        if self.demand.slow_batches:
            return min(waiting, concurrency)
        fair = max(min(concurrency, -(-waiting // replicas)), waiting // (replicas * LEASE_SPREAD))
        limit = max(concurrency, int(self.rate * LEASE_TARGET_S)) if self.has_rate else MAX_LEASE_EPISODES
        return min(waiting, max(1, min(MAX_LEASE_EPISODES, limit, fair)))

    @property
    def start_s(self) -> float:
        """Mean seconds that a replica takes to start; 0 without a rate."""
        return (self.demand.start + sum(self.start_times)) / (1 + len(self.start_times)) if self.has_rate else 0.0


@dataclass
class WorkerSlot:
    """One worker, from the command that starts it to its end."""

    group: WorkerGroup
    place: Place
    """Where its GPUs are counted."""
    started_at: float = 0.0
    last_heard: float = 0.0
    """Time of its last message, or of its first lease after an idle time."""
    placed: bool = False
    """True once Ray has given it its GPUs and CPUs."""
    ready: bool = False
    ready_at: float = 0.0
    suspected: bool = False
    """True while it plays a lease of suspects only."""
    leaving: bool = False
    """True if it takes no new lease because another group or pool needs its GPU."""
    surplus: bool = False
    """True if it takes no new lease because its group ends in time without it, and another group lacks its GPUs."""
    leases: dict[int, dict[int, None]] = field(default_factory=dict)
    """Lease -> undelivered ordinals, in the order in which they are played."""
    due: dict[int, float] = field(default_factory=dict)
    """Lease -> time at which it is far too late."""
    cpus: float = 0.0
    """The CPUs that it has reserved; its group's demand may change later."""

    @property
    def leased_count(self) -> int:
        return sum(map(len, self.leases.values()))

    @property
    def leased(self) -> tuple[int, ...]:
        return tuple(ordinal for lease in self.leases.values() for ordinal in lease)

    def deadline(self, now: float, silence: float) -> float:
        """Return the time at which the newest lease here is far too late; infinity if no rate is known."""
        predictable = self.group.has_rate and not self.group.demand.slow_batches
        expected_s = self.leased_count / self.group.rate if predictable else 0.0
        return now + silence + LATE_FACTOR * expected_s if expected_s else float("inf")

    def restart_deadlines(self, now: float, silence: float) -> None:
        """Do not count the time until now, in which it had to wait, as silence or lateness."""
        self.last_heard = now
        self.due = {lease: max(due, now + silence) for lease, due in self.due.items()}

    @property
    def wants_work(self) -> bool:
        """True if it takes one more lease: up to two, or as many small ones as its engine can play at once."""
        return len(self.leases) < LEASES_PER_WORKER or self.leased_count < self.group.demand.concurrency


def finish_time(ready: Sequence[float], work: float) -> float:
    """Return the time at which replicas, ready at these times, have together done ``work`` replica-seconds.

    Infinity without a replica.
    """
    times, total, end = sorted(ready), 0.0, float("inf")
    for count, time in enumerate(times, start=1):
        if time >= end:
            break
        total += time
        end = (total + work) / count
    return end


def leased_count(slots: Iterable[WorkerSlot]) -> int:
    """Return the episodes that these workers have and have not delivered."""
    return sum(slot.leased_count for slot in slots)


def used_cpus(slots: Iterable[WorkerSlot], place: Place | None) -> float:
    """Return the CPUs in use for a replica at this place: those of a shared GPU count once, and not if it joins it."""
    joined = place.shared if place else None
    holders = {n if (shared := slot.place.shared) is None else ("shared", shared): slot for n, slot in enumerate(slots)}
    return sum(slot.cpus for slot in holders.values() if slot.place.shared is None or slot.place.shared != joined)
