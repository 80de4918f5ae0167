"""The scheduler's state: groups of workers that play one model, and one slot per worker.

Every pending episode is in one of them: waiting, suspected or parked in its group, or leased to one slot.
"""

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Place

LEASES_PER_WORKER = 2
"""With two leases, a worker is busy while the next one is on its way."""
PRIOR_WEIGHT_S = 60.0
"""The estimated rate weighs as much as so many seconds of observation."""

SILENCE_TIMEOUT_S = 900.0
"""Seconds without a message after which a worker with a lease loses its work."""
MIN_SILENCE_TIMEOUT_S = 180.0
"""The shortest timeout of a group whose rate has been observed."""
SILENCE_ROUNDS = 10.0
"""Rounds of a full engine for which a worker may be silent if its group's rate has been observed."""
MAX_LEASE_EPISODES = 2048
"""Maximum episodes per lease: a few seconds of work for the fastest policy, so a lost worker loses little."""
LEASE_TARGET_S = 60.0
"""Seconds of work per lease if the rate is known, so that a slow model's lease never takes an hour."""
LEASE_SPREAD = 4
"""A lease that more than fills the engine has at most 1/4 of the waiting episodes per worker, so that none delays the end."""


@dataclass
class WorkerGroup:
    """The work of one model, or of all built-in policies."""

    name: str
    demand: Demand
    waiting: deque[int]
    suspects: deque[tuple[int, ...]] = field(default_factory=deque)
    """Small leases of episodes that were in play when a worker died; split further until the episode that kills is alone."""
    lost_with_node: set[int] = field(default_factory=set)
    """Episodes that were in play when a node was lost."""
    failed_starts: int = 0
    losses: int = 0
    """Workers lost in a row, with no episode delivered in between; each was ready only after the loss before."""
    last_loss_at: float = 0.0
    played: int = 0
    """Episodes that its replicas delivered in ``busy_s`` seconds of playing."""
    busy_s: float = 0.0
    answered: int = 0
    """Requests that a judge with standing replicas has answered for the episodes of other groups."""
    start_times: list[float] = field(default_factory=list)
    """Seconds that each of its replicas took to start."""
    reason: str = ""
    """Why its last lost worker was lost, or why it is abandoned."""
    abandoned: bool = False
    """True if the group is not played any more in this attempt; its episodes, and new answers for it, wait for the next."""
    cancelled: set[int] = field(default_factory=set)
    """Episodes that are never played in this attempt."""
    paused: Container[int] = ()
    """Episodes that are not played before they are resumed."""
    withdrawn: Container[int] = ()
    """Episodes that a person has cancelled and may restore."""
    parked: deque[int] = field(default_factory=deque)
    """Paused episodes that are not leased; they stay pending."""
    dropped: deque[int] = field(default_factory=deque)
    """Withdrawn episodes that are not leased."""

    def cancel(self, ordinals: Iterable[int]) -> None:
        """Remove these episodes from the queues for the rest of the attempt."""
        self.cancelled.update(ordinals)
        self._refilter(())

    def hold(self, paused: Container[int], withdrawn: Container[int]) -> None:
        """Keep exactly these episodes out of the queues; return all others that were held back to the queue."""
        self.paused, self.withdrawn = paused, withdrawn
        held_back = (*self.dropped, *self.parked)
        self.dropped, self.parked = deque(), deque()
        self._refilter(held_back)

    def _refilter(self, returning: Iterable[int]) -> None:
        self.suspects = deque(playable for lease in self.suspects if (playable := self.filter_playable(lease)))
        self.waiting = deque(self.filter_playable((*self.waiting, *returning)))

    def filter_playable(self, ordinals: Iterable[int]) -> tuple[int, ...]:
        """Return the episodes that may be leased, none if the group is abandoned; park or drop the others."""
        playable = list[int]()
        if self.abandoned:
            return ()
        for ordinal in ordinals:
            if not self.is_held_back(ordinal):
                playable.append(ordinal)
            elif ordinal not in self.cancelled:
                (self.dropped if ordinal in self.withdrawn else self.parked).append(ordinal)
        return tuple(playable)

    def is_held_back(self, ordinal: int) -> bool:
        return ordinal in self.cancelled or ordinal in self.paused or ordinal in self.withdrawn

    @property
    def queued_count(self) -> int:
        """Number of episodes that wait for a lease, including suspects."""
        return len(self.waiting) + sum(map(len, self.suspects))

    @property
    def has_rate(self) -> bool:
        """True if the group's rate is estimated or observed."""
        return self.demand.rate is not None or (self.busy_s > 0 and self.played > 0)

    @property
    def rate(self) -> float:
        """Episodes/s of one replica: the estimate, corrected by observation; 1 if there is neither."""
        if self.demand.rate is None:
            return self.played / self.busy_s if self.has_rate else 1.0
        return (self.demand.rate * PRIOR_WEIGHT_S + self.played) / (PRIOR_WEIGHT_S + self.busy_s)

    @property
    def round_s(self) -> float:
        """Seconds that an episode takes in a full engine; 0 if the rate is unknown."""
        return self.demand.concurrency / self.rate if self.has_rate else 0.0

    def silence_timeout(self, silence: float) -> float:
        """Return the seconds that a worker of this group may send nothing: ``silence``, or less if the rate is observed."""
        if self.demand.standing_replicas:
            return silence / 2  # a silent judge is dropped before the workers that wait for it count as silent
        if self.busy_s < PRIOR_WEIGHT_S or not self.played:
            return silence
        return min(silence, max(MIN_SILENCE_TIMEOUT_S, SILENCE_ROUNDS * self.demand.concurrency / self.rate))

    def lease_size(self, replicas: int) -> int:
        """Return the number of episodes in the next lease.

        It is a minute of work, or less towards the end, but enough to fill the engine.
        """
        concurrency, waiting = self.demand.concurrency, len(self.waiting)
        fair = max(min(concurrency, -(-waiting // replicas)), waiting // (replicas * LEASE_SPREAD))
        limit = max(concurrency, int(self.rate * LEASE_TARGET_S)) if self.has_rate else MAX_LEASE_EPISODES
        return min(waiting, max(1, min(MAX_LEASE_EPISODES, limit, fair)))

    @property
    def start_s(self) -> float:
        """Mean seconds that a replica takes to start, the estimate included; 0 if the rate is unknown."""
        return (self.demand.start + sum(self.start_times)) / (1 + len(self.start_times)) if self.has_rate else 0.0


@dataclass
class WorkerSlot:
    """One worker, from the command that starts it to its end."""

    group: WorkerGroup
    place: Place
    """Where its GPUs are counted."""
    started_at: float = 0.0
    """Time of the start command; from ``placed`` on, the time at which Ray placed it."""
    last_heard: float = 0.0
    """Time of its last message, or of the end of a time in which it was idle or had to wait for a judge."""
    placed: bool = False
    """True if Ray has given it its GPUs and CPUs."""
    ready: bool = False
    ready_at: float = 0.0
    suspected: bool = False
    """True while it plays a lease of suspects, and nothing else."""
    leaving: bool = False
    """True if it takes no new lease, because another group or pool needs its GPUs or its node is drained."""
    surplus: bool = False
    """True if it takes no new lease, because its group ends in time without it and another group needs its GPUs."""
    leases: dict[int, dict[int, None]] = field(default_factory=dict)
    """Lease -> undelivered ordinals, in the order in which they are played."""
    cpus: float = 0.0
    """The CPUs that it reserves; the demand of its group may change while it runs."""

    @property
    def leased_count(self) -> int:
        return sum(map(len, self.leases.values()))

    @property
    def leased(self) -> tuple[int, ...]:
        return tuple(ordinal for lease in self.leases.values() for ordinal in lease)

    @property
    def wants_work(self) -> bool:
        """True if it takes one more lease: it has fewer than two, or too few leased episodes to fill its engine."""
        return len(self.leases) < LEASES_PER_WORKER or self.leased_count < self.group.demand.concurrency


def finish_time(ready: Sequence[float], work: float) -> float:
    """Return the time at which replicas that are ready at these times have done ``work`` replica-seconds together.

    Infinity if there is no replica.
    """
    times, total, end = sorted(ready), 0.0, float("inf")
    for count, time in enumerate(times, start=1):
        if time >= end:
            break
        total += time
        end = (total + work) / count
    return end


def leased_count(slots: Iterable[WorkerSlot]) -> int:
    """Return the number of episodes that are leased to these workers and not delivered."""
    return sum(slot.leased_count for slot in slots)


def used_cpus(slots: Iterable[WorkerSlot], place: Place | None) -> float:
    """Return the CPUs that these workers use, as far as a new replica at ``place`` cannot have them.

    The CPUs of a shared GPU count once, and not at all if the replica joins that GPU.
    """
    joined = place.shared if place else None
    holders = {n if (shared := slot.place.shared) is None else ("shared", shared): slot for n, slot in enumerate(slots)}
    return sum(slot.cpus for slot in holders.values() if slot.place.shared is None or slot.place.shared != joined)
